#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <numeric>
#include <vector>

namespace topomask {

/// Tiles of M that hold the same values: group g has the tiles (rows[e], columns[e]) for first[g] <= e < first[g + 1].
struct TileGroups {
  std::vector<int32_t> first{0}, rows, columns;
};

/// The most tiles along an axis that are listed: sixteen million tiles, 128 MiB.
inline constexpr int64_t kMostListedBlocks = 4096;

/// The groups for a Toeplitz mask with ascending codes: the tiles of a group have the same row codes and the same
/// column codes up to one shift of both. Groups with many tiles come first. O((nodes / tile)²).
inline TileGroups equal_tiles(const int32_t* codes, int64_t nodes, int64_t tile) {
  const int64_t blocks = (nodes + tile - 1) / tile;
  std::map<std::vector<int32_t>, int32_t> shapes;
  std::vector<int32_t> shape(blocks);
  for (int64_t block = 0; block < blocks; ++block) {
    std::vector<int32_t> codes_here(codes + block * tile, codes + std::min(nodes, (block + 1) * tile));
    for (auto c = codes_here.rbegin(); c != codes_here.rend(); ++c) *c -= codes_here.front();
    shape[block] = shapes.try_emplace(std::move(codes_here), static_cast<int32_t>(shapes.size())).first->second;
  }
  std::map<std::array<int32_t, 3>, std::vector<int32_t>> members;
  for (int64_t i = 0; i < blocks; ++i) {
    for (int64_t j = 0; j < blocks; ++j) {
      members[{shape[i], shape[j], codes[i * tile] - codes[j * tile]}].push_back(static_cast<int32_t>(i * blocks + j));
    }
  }
  std::vector<const std::vector<int32_t>*> order;
  for (const auto& [key, tiles] : members) order.push_back(&tiles);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return a->size() > b->size(); });
  TileGroups groups;
  for (const auto* tiles : order) {
    for (const int32_t t : *tiles) {
      groups.rows.push_back(static_cast<int32_t>(t / blocks));
      groups.columns.push_back(static_cast<int32_t>(t % blocks));
    }
    groups.first.push_back(static_cast<int32_t>(groups.rows.size()));
  }
  return groups;
}

/// The most offsets that a tile of `tile` by `tile` nodes sees.
inline int64_t longest_window(const int32_t* codes, int64_t nodes, int64_t tile) {
  int64_t longest = 0;
  for (int64_t first = 0; first < nodes; first += 64) {
    longest = std::max<int64_t>(longest, codes[std::min(nodes, first + tile) - 1] - codes[first]);
  }
  return 2 * longest + 1;
}

}  // namespace topomask
