#include <ATen/ATen.h>

#include "data/episodes/shard.h"
#include "io/output_file.h"

namespace topomask {

using namespace episodes;

struct EpisodeWriter::State {
  io::Origin origin;
  Directory directory;
  std::string packed;
};

EpisodeWriter::EpisodeWriter(std::string path)
    : state_(std::make_unique<State>(State{.origin = {"EpisodeWriter", std::move(path)}})) {}

EpisodeWriter::~EpisodeWriter() = default;

void EpisodeWriter::add(const Episode& episode) {
  check_episode(episode);
  TORCH_CHECK(episode.depth.numel() == 0 || std::lround(episode.depth.max().item<double>() / kDepthUnit) <= kDeepest,
              "EpisodeWriter: depth must be at most ", kDeepest * kDepthUnit, " m, got ",
              episode.depth.max().item<double>());
  Entry entry{.kind = episode.kind, .seed = episode.seed, .interval = episode.interval, .names = episode.names};
  std::string packed;
  for (size_t i = 0; i < kFields.size(); ++i) {
    const at::Tensor& tensor = episode.*kFields[i].tensor;
    const std::string bytes = pack(kFields[i], tensor);
    entry.blocks[i] = {.shape = tensor.sizes().vec(), .packed = std::ssize(bytes), .crc = crc_of(bytes)};
    packed += bytes;
  }
  state_->packed += packed;
  state_->directory.entries.push_back(std::move(entry));
}

void EpisodeWriter::count_dropped(const std::string& reason, int64_t episodes) {
  TORCH_CHECK(episodes >= 0, "EpisodeWriter: episodes dropped must be at least 0, got ", episodes);
  if (episodes > 0) state_->directory.dropped[reason] += episodes;
}

int64_t EpisodeWriter::size() const {
  return std::ssize(state_->directory.entries);
}

void EpisodeWriter::commit() {
  const std::string directory = directory_text(state_->directory);
  TORCH_CHECK(std::ssize(directory) <= kLargestDirectory, "EpisodeWriter: the directory of a shard must have at most ",
              kLargestDirectory, " bytes, got ", directory.size(), ": write more shards");
  std::string header(kMagic);
  const auto append = [&](const auto& number) {
    header.append(reinterpret_cast<const char*>(&number), sizeof(number));
  };
  append(kVersion);
  append(crc_of(directory));
  append(uint64_t{directory.size()});
  append(uint64_t{kHeaderBytes + directory.size() + state_->packed.size()});
  io::OutputFile file(state_->origin);
  file.put(header);
  file.put(directory);
  file.put(state_->packed);
  file.commit();
}

}  // namespace topomask
