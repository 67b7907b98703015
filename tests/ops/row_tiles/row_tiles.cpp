#include "ops/row_tiles/layout.h"
#include "ops/row_tiles/op.h"
#include "support/compare.h"
#include "support/devices.h"
#include "support/sparse_reference.h"

namespace topomask {
namespace {

using at::Tensor;

/// The matrix of ones that the tiles describe, read as layout.h has them.
Tensor matrix_of(const Tensor& tiles, int64_t rows, int64_t cols) {
  const int32_t* words = tiles.const_data_ptr<int32_t>();
  const Tensor result = at::zeros({rows, cols}, at::kLong);
  for (int64_t tile = 0; tile < RowTiles::count(rows); ++tile) {
    int32_t last = -1;
    for (int32_t chunk = words[tile]; chunk < words[tile + 1]; ++chunk) {
      const int32_t* at = words + RowTiles::header(rows) + chunk * RowTiles::kChunkWords;
      for (int c = 0; c < RowTiles::kColumns; ++c) {
        const int32_t column = at[RowTiles::word(c)];
        bool named = false;
        for (int r = 0; r < RowTiles::kRows; ++r) {
          const auto bits = static_cast<uint32_t>(at[RowTiles::kColumns + r % 8]);
          if ((bits >> (r / 8 * 16 + c) & 1) == 0) continue;
          named = true;
          result[tile * RowTiles::kRows + r][column] += 1;
        }
        if (named) {
          EXPECT_GT(column, last) << "columns ascend";
          last = column;
        } else {
          EXPECT_EQ(column, at[RowTiles::word(0)]) << "a chunk that is not full names its first column again";
        }
      }
    }
  }
  return result;
}

TEST(RowTiles, HoldEveryEntryOnce) {
  for (const at::Device device : testing::devices()) {
    for (const auto& [rows, cols] : std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {16, 16}, {17, 63}, {100, 7}}) {
      SCOPED_TRACE(c10::str(rows, " x ", cols, " on ", device));
      const PatternPtr pattern = testing::random_pattern(rows, cols, 0.15, 1);
      const Tensor tiles = ops::row_tiles::make(pattern->to(device)->tensors()).cpu();
      const Tensor expected = testing::dense_matrix(pattern, at::ones({1, pattern->entries()}, at::kDouble))[0];
      EXPECT_TRUE(matrix_of(tiles, rows, cols).equal(expected.to(at::kLong)));
    }
  }
}

}  // namespace
}  // namespace topomask
