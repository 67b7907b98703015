#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "data/episodes/shard.h"
#include "io/input_file.h"
#include "io/quoted.h"

namespace topomask {

using namespace episodes;

/// A file and what its directory says. It is opened again for every episode, so that threads share no position and a
/// folder of many shards no limit of open files.
struct EpisodeSet::Shard {
  io::Origin origin;
  Directory directory;
  int64_t data_begin = 0;
  int64_t file_bytes = 0;
};

namespace {

template <class Number>
Number number_at(const std::string& bytes, size_t at) {
  Number number;
  std::memcpy(&number, bytes.data() + at, sizeof(number));
  return number;
}

/// Everything up to the arrays: identity, version, sizes, checksum of the directory, directory.
Directory read_directory(io::InputFile& file, int64_t& data_begin) {
  const io::Origin& origin = file.origin();
  if (!file.size()) io::fail(origin, "expected a regular file");
  const int64_t size = *file.size();
  std::string header(kHeaderBytes, '\0');
  if (size < kHeaderBytes) {
    io::fail(origin, "truncated: a shard of episodes starts with ", kHeaderBytes, " bytes, file has ", size);
  }
  file.read_at(0, header.data(), header.size());
  if (!header.starts_with(kMagic)) {
    io::fail(origin, "not a shard of episodes: it starts with ", io::quoted(header.substr(0, kMagic.size())));
  }
  const auto version = number_at<uint32_t>(header, 8), crc = number_at<uint32_t>(header, 12);
  if (version != kVersion) io::fail(origin, "version must be ", kVersion, ", got ", version);
  const auto directory_bytes = number_at<uint64_t>(header, 16), file_bytes = number_at<uint64_t>(header, 24);
  if (file_bytes != static_cast<uint64_t>(size)) {
    io::fail(origin, static_cast<uint64_t>(size) < file_bytes ? "truncated" : "damaged", ": header says ", file_bytes,
             " bytes, file has ", size);
  }
  const int64_t room = std::min(kLargestDirectory, size - kHeaderBytes);
  if (directory_bytes > static_cast<uint64_t>(room)) {
    io::fail(origin, "damaged: the directory must have at most ", room, " bytes, got ", directory_bytes);
  }
  std::string text(directory_bytes, '\0');
  file.read_at(kHeaderBytes, text.data(), text.size());
  if (crc_of(text) != crc) {
    io::fail(origin, "checksum mismatch: header says ", crc, ", the directory gives ", crc_of(text));
  }
  data_begin = kHeaderBytes + static_cast<int64_t>(directory_bytes);
  return parse_directory(origin, text, size - data_begin);
}

std::vector<std::string> shards_in(const std::string& path) {
  namespace fs = std::filesystem;
  if (!fs::is_directory(path)) return {path};
  std::vector<std::string> files;
  for (const auto& file : fs::directory_iterator(path)) {
    if (file.path().extension() == kEnding) files.push_back(file.path().string());
  }
  std::sort(files.begin(), files.end());
  if (files.empty()) io::fail({"EpisodeSet", path}, "the folder has no file *", kEnding);
  return files;
}

EpisodeSummary summary_of(const Entry& entry, const std::string& file, int64_t place) {
  const auto& image = entry.blocks[0].shape;
  EpisodeSummary summary{.kind = entry.kind,
                         .seed = entry.seed,
                         .interval = entry.interval,
                         .names = entry.names,
                         .frames = image[0],
                         .cameras = image[1],
                         .height = image[2],
                         .width = image[3],
                         .joints = entry.blocks[5].shape[1],
                         .action_points = entry.blocks[7].shape[1],
                         .file = file,
                         .place = place};
  for (const Block& block : entry.blocks) summary.packed_bytes += block.packed;
  return summary;
}

}  // namespace

EpisodeSet::EpisodeSet(const std::string& path) {
  for (const std::string& file : shards_in(path)) {
    const io::Origin origin{"EpisodeSet", file};
    io::InputFile input(origin);
    auto shard = std::make_shared<Shard>(Shard{.origin = origin});
    shard->directory = read_directory(input, shard->data_begin);
    shard->file_bytes = *input.size();
    for (const auto& [reason, count] : shard->directory.dropped) dropped_[reason] += count;
    for (int64_t i = 0; i < std::ssize(shard->directory.entries); ++i) {
      places_.emplace_back(std::ssize(shards_), i);
      summaries_.push_back(summary_of(shard->directory.entries[static_cast<size_t>(i)], file, i));
    }
    shards_.push_back(std::move(shard));
  }
}

const EpisodeSummary& EpisodeSet::summary(int64_t index) const {
  TORCH_CHECK(index >= 0 && index < size(), "EpisodeSet: index must be in [0, ", size(), "), got ", index);
  return summaries_[static_cast<size_t>(index)];
}

Episode EpisodeSet::load(int64_t index) const {
  TORCH_CHECK(index >= 0 && index < size(), "EpisodeSet: index must be in [0, ", size(), "), got ", index);
  const auto [shard_index, place] = places_[static_cast<size_t>(index)];
  const Shard& shard = *shards_[static_cast<size_t>(shard_index)];
  const Entry& entry = shard.directory.entries[static_cast<size_t>(place)];
  io::InputFile file(shard.origin);
  if (file.size() != shard.file_bytes) io::fail(shard.origin, "the file has changed since it was opened");
  Episode episode{.kind = entry.kind, .seed = entry.seed, .interval = entry.interval, .names = entry.names};
  int64_t at = shard.data_begin + entry.begin;
  for (size_t i = 0; i < kFields.size(); ++i) {
    const Block& block = entry.blocks[i];
    std::string packed(static_cast<size_t>(block.packed), '\0');
    file.read_at(at, packed.data(), packed.size());
    if (crc_of(packed) != block.crc) {
      io::fail(shard.origin, "checksum mismatch: episode ", place, ", array ", kFields[i].name, " should have ",
               block.crc, ", its bytes give ", crc_of(packed));
    }
    episode.*kFields[i].tensor = unpack(shard.origin, kFields[i], block, packed);
    at += block.packed;
  }
  try {
    check_episode(episode);
  } catch (const c10::Error& error) {
    io::fail(shard.origin, "malformed: episode ", place, ": ", error.what_without_backtrace());
  }
  return episode;
}

}  // namespace topomask
