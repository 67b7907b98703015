#include "train/metrics.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "../data/files.h"
#include "support/compare.h"
#include "train/event_file.h"

using namespace topomask;
using namespace topomask::testing;

namespace {

uint32_t word_at(const std::string& bytes, size_t place) {
  uint32_t word = 0;
  std::memcpy(&word, bytes.data() + place, 4);
  return word;
}

/// The payloads of an event file, every checksum checked.
std::vector<std::string> records(const std::string& bytes) {
  const auto expect_checksum = [&](size_t place, const std::string& of) {
    const uint32_t crc = crc32c(of);
    EXPECT_EQ(word_at(bytes, place), (crc >> 15 | crc << 17) + 0xa282ead8U);
  };
  std::vector<std::string> payloads;
  for (size_t place = 0; place < bytes.size();) {
    const size_t length = word_at(bytes, place);
    expect_checksum(place + 8, bytes.substr(place, 8));
    payloads.push_back(bytes.substr(place + 12, length));
    expect_checksum(place + 12 + length, payloads.back());
    place += 16 + length;
  }
  return payloads;
}

}  // namespace

TEST(EventFile, ChecksumIsCastagnolis) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);
}

TEST(EventFile, HoldsAVersionAndScalars) {
  const TemporaryFolder folder;
  EventFile file(folder.path());
  file.scalar("train/loss", 300, 0.5);
  file.flush();
  const auto payloads = records(read_file(file.path()));
  ASSERT_EQ(payloads.size(), 2);
  EXPECT_TRUE(
      payloads[0].ends_with("\x1a\x0d"
                            "brain.Event:2"));
  // step = 2: 300 as a varint; summary = 5 { value = 1 { tag = 1, simple_value = 2: 0.5F } }
  EXPECT_EQ(payloads[1].substr(9),
            std::string("\x10\xac\x02\x2a\x13\x0a\x11\x0a\x0atrain/loss\x15\x00\x00\x00\x3f", 24));
}

TEST(Metrics, ComeBackAsTheyWereWritten) {
  const TemporaryFolder folder;
  {
    MetricsLog log(folder.path());
    log.write(TrainMetrics{
        .step = 5, .epoch = 0.5, .loss = 1.25, .lr = 1e-3, .items_per_s = 10, .step_ms = 2, .memory_mb = 3});
    log.write(TrainMetrics{.step = 6, .loss = std::numeric_limits<double>::infinity()});
    log.write(EvalMetrics{.step = 6, .split = "test", .loss = 1, .accuracy = 0.75});
  }
  const RunMetrics metrics = read_metrics(folder.path());
  ASSERT_EQ(metrics.train.size(), 2);
  EXPECT_EQ(metrics.train[0].loss, 1.25);
  EXPECT_EQ(metrics.train[0].memory_mb, 3);
  EXPECT_TRUE(std::isnan(metrics.train[1].loss));  // JSON has no infinity
  ASSERT_EQ(metrics.eval.size(), 1);
  EXPECT_EQ(metrics.eval[0].split, "test");
  EXPECT_EQ(metrics.eval[0].accuracy, 0.75);
}

TEST(Metrics, ARunThatGoesOnDropsWhatItWillDoAgain) {
  const TemporaryFolder folder;
  {
    MetricsLog log(folder.path());
    for (int64_t step = 1; step <= 5; ++step) log.write(EvalMetrics{.step = step, .split = "test"});
  }
  write_file(folder / "metrics.jsonl",
             read_file(folder / "metrics.jsonl") + "{\"kind\":\"tra");  // killed while writing
  EXPECT_EQ(read_metrics(folder.path()).eval.size(), 5);
  {
    MetricsLog log(folder.path(), 3);
    log.write(EvalMetrics{.step = 4, .split = "again"});
  }
  const RunMetrics metrics = read_metrics(folder.path());
  ASSERT_EQ(metrics.eval.size(), 4);
  EXPECT_EQ(metrics.eval[3].split, "again");
}

TEST(Metrics, DamagedLinesAreErrorsWithTheirNumber) {
  const TemporaryFolder folder;
  EXPECT_ERROR(read_metrics(folder.path()), "metrics.jsonl: there is no such file");
  write_file(folder / "metrics.jsonl", "{\"kind\":\"eval\",\"step\":1,\"loss\":1,\"accuracy\":1}\nnonsense\n{}\n");
  EXPECT_ERROR(read_metrics(folder.path()), "metrics.jsonl, line 2: expected a JSON object with a step");
  write_file(folder / "metrics.jsonl", "{\"kind\":\"eval\",\"step\":1,\"loss\":\"low\",\"accuracy\":1}\n");
  EXPECT_ERROR(read_metrics(folder.path()), "line 1: loss must be a number");
  EXPECT_ERROR(MetricsLog("/nowhere/at/all"), "cannot write");
}
