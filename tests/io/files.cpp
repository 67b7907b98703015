// Files that no graph, walk or model has anything to do with: whole or not there, in records, and in archives.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "io/append_file.h"
#include "io/npy.h"
#include "io/text_reader.h"
#include "io/zip_archive.h"
#include "support/surviving_file.h"

namespace topomask::testing {
namespace {

class Files : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "topomask_io_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  io::Origin origin(const std::string& name) const { return {"test", (folder_ / name).string()}; }

  std::filesystem::path folder_;
};

TEST_F(Files, ReplaceTheOldOneWholeOrNotAtAll) {
  const io::Origin here = origin("file");
  std::ofstream(here.path) << "what was there before";
  expect_old_file_survives(here.path, [&] {
    io::OutputFile file(here);
    file.put(std::string(1 << 19, 'x'));  // more than a buffer
    file.put(int64_t{-7});
    file.put(0.1);
    file.commit();
  });
}

TEST_F(Files, AreNotThereBeforeTheyAreCommitted) {
  const io::Origin here = origin("file");
  {
    io::OutputFile file(here);
    file.put("half of it");
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(Files, HaveANameOfTheirOwnUntilTheyAreWhole) {
  io::OutputFile file(origin("a.tmp.b"));
  const std::string name = std::filesystem::directory_iterator(folder_)->path().filename().string();
  EXPECT_EQ(io::unfinished_name(name), "a.tmp.b") << name;
  EXPECT_EQ(io::unfinished_name("c.json.tmp.12.0"), "c.json");
  for (const char* other : {"", "c.json", "notes.tmp.txt", "c.tmp.", "c.tmp.1", "c.tmp.1.", "c.tmp..1", "c.tmp.1.2.3",
                            "c.tmp.1.x", "c.tmp.-1.2"}) {
    EXPECT_EQ(io::unfinished_name(other), "") << other;
  }
}

TEST_F(Files, GrowByWholeRecordsWhereverAWriteFails) {
  using Mode = FailingCalls::Mode;
  for (const Mode mode : {Mode::fail, Mode::shorten, Mode::dribble}) {
    const io::Origin here = origin("log");
    io::AppendFile log(here, io::AppendFile::Start::empty);
    log.append("first\n");
    bool failed = false;
    {
      const FailingCalls failing(folder_.string(), 1, mode);
      try {
        log.append("second\n");
      } catch (const std::exception& error) {
        failed = true;
        EXPECT_NE(std::string(error.what()).find(here.path), std::string::npos) << error.what();
      }
    }
    EXPECT_EQ(failed, mode != Mode::dribble);
    log.append("third\n");
    log.sync();
    EXPECT_EQ(content_of(here.path), failed ? "first\nthird\n" : "first\nsecond\nthird\n");
    io::AppendFile kept(here, io::AppendFile::Start::keep);
    kept.append("fourth\n");
    EXPECT_EQ(content_of(here.path), failed ? "first\nthird\nfourth\n" : "first\nsecond\nthird\nfourth\n");
  }
}

TEST_F(Files, HoldArraysInAnArchive) {
  const io::Origin here = origin("arrays.npz");
  const std::vector<int32_t> written = {5, -3, 1 << 30};
  {
    io::OutputFile file(here);
    io::ZipWriter archive(file);
    archive.add("ids.npy", io::npy_header("<i4", "(3,)"), {reinterpret_cast<const char*>(written.data()), 12});
    archive.add("empty.npy", io::npy_header("<f8", "(0,)"), {});
    archive.finish();
    file.commit();
  }
  io::InputFile file(here);
  const auto members = io::read_zip_directory(file);
  EXPECT_EQ(members.size(), 2u);
  io::NpyReader ids(file, members.at("ids.npy"), "ids");
  EXPECT_EQ(ids.header().describe(), "i4[3]");
  std::vector<int64_t> read;
  ids.for_each_integer([&](int64_t index, int64_t value) {
    EXPECT_EQ(index, std::ssize(read));
    read.push_back(value);
  });
  EXPECT_EQ(read, (std::vector<int64_t>{5, -3, 1 << 30}));
  EXPECT_EQ(io::NpyReader(file, members.at("empty.npy"), "empty").size(), 0);
}

TEST_F(Files, AreReadAsTextPlainOrCompressed) {
  for (const char* name : {"text", "text.gz"}) {
    const io::Origin here = origin(name);
    io::OutputFile file(here);
    file.put("# note\n12 0.5\n");
    file.commit();
    EXPECT_EQ(content_of(here.path).front() == '#', std::string(name) == "text");
    io::TextReader text(here);
    EXPECT_EQ(text.peek_content('#'), io::TextReader::Next::token);
    EXPECT_EQ(text.integer("an integer"), 12);
    EXPECT_EQ(text.number("a number", at::kDouble), 0.5);
    text.end_line();
    EXPECT_EQ(text.peek_content('#'), io::TextReader::Next::end_of_file);
  }
}

}  // namespace
}  // namespace topomask::testing
