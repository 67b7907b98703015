#include "data/philox_stream.h"
#include "data/readers.h"

namespace topomask {
namespace {

// Every image shows as many marks of two kinds on a noisy ground, whatever its class: what tells the classes apart is
// only how far on the grid of cells the two marks of a pair are from each other. A mask over that grid sees it at once.
constexpr int64_t kCell = 4;   // pixels
constexpr int64_t kPairs = 4;  // of marks
constexpr int64_t kGround = 96, kNoise = 64;
const std::vector<std::string> kClasses{"touching", "two apart", "three apart", "scattered"};

class Synthetic final : public ImageDataset {
 public:
  Synthetic(DatasetInfo info, uint64_t seed, bool test) : ImageDataset(std::move(info)), seed_(seed), test_(test) {}

  int64_t read(int64_t index, uint8_t* image) const override {
    PhiloxStream draws(seed_, test_ ? 1 : 0, index, DrawFor::synthetic);
    const int64_t side = image_shape()[1], cells = side / kCell, label = index % static_cast<int64_t>(kClasses.size());
    for (int64_t i = 0; i < side * side; ++i) image[i] = static_cast<uint8_t>(kGround + draws.below(kNoise));
    for (int64_t pair = 0; pair < kPairs; ++pair) {
      const int64_t x = draws.below(cells), y = draws.below(cells);
      draw_mark(image, x, y, true);
      const auto [other_x, other_y] = partner(draws, x, y, label);
      draw_mark(image, other_x, other_y, false);
    }
    return label;
  }

 private:
  std::pair<int64_t, int64_t> partner(PhiloxStream& draws, int64_t x, int64_t y, int64_t label) const {
    const int64_t cells = image_shape()[1] / kCell;
    const int64_t distance = label + 1;
    for (;;) {
      const int64_t other_x = draws.below(cells), other_y = draws.below(cells);
      const int64_t apart = std::abs(other_x - x) + std::abs(other_y - y);
      const bool scattered = distance == static_cast<int64_t>(kClasses.size());
      if (scattered ? apart > 3 : apart == distance) return {other_x, other_y};
    }
  }

  void draw_mark(uint8_t* image, int64_t cell_x, int64_t cell_y, bool bright) const {
    const int64_t side = image_shape()[1];
    for (int64_t y = 0; y < kCell; ++y) {
      for (int64_t x = 0; x < kCell; ++x) {
        image[(cell_y * kCell + y) * side + cell_x * kCell + x] = bright ? 255 : 0;
      }
    }
  }

  uint64_t seed_;
  bool test_;
};

}  // namespace

DatasetPtr open_synthetic(const DataOptions& options, bool test) {
  const int64_t count = test ? options.synthetic_test : options.synthetic_train;
  TORCH_CHECK(options.image_size >= 4 * kCell && options.image_size <= 4096 && options.image_size % kCell == 0,
              "open_dataset: data.image_size of synthetic must be a multiple of 4 from 16 to 4096, got ",
              options.image_size);
  return std::make_shared<Synthetic>(
      DatasetInfo{"synthetic", count, kClasses, {1, options.image_size, options.image_size}}, options.split_seed, test);
}

}  // namespace topomask
