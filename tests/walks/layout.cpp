#include <ATen/Parallel.h>

#include <algorithm>
#include <map>

#include "core/philox.h"
#include "walks/helpers.h"

// The random numbers are a promise: here they are used as the header says, one walk after the other.

namespace topomask::testing {
namespace {

uint32_t word_of(const PhiloxWords& words, int64_t k) {
  return k == 0 ? words.a : k == 1 ? words.b : k == 2 ? words.c : words.d;
}

/// Walks [N, walkers, max_hops + 1] of uniform proposals.
at::Tensor plain_walks(const Graph& graph, const WalkOptions& options, int64_t hops) {
  const PhiloxKey key = philox_key(options.seed);
  const bool fixed = options.fixed_hops.has_value();
  const bool antithetic =
      options.coupling == Coupling::antithetic || options.coupling == Coupling::antithetic_repelling;
  const bool repelling = options.coupling == Coupling::repelling || options.coupling == Coupling::antithetic_repelling;
  const at::Tensor walks = at::full({graph.num_nodes(), options.walkers, hops + 1}, -1, at::kLong);
  auto at = walks.accessor<int64_t, 3>();
  const int64_t* offsets = graph.offsets().const_data_ptr<int64_t>();
  const int32_t* columns = graph.columns().const_data_ptr<int32_t>();
  for (int64_t i = 0; i < graph.num_nodes(); ++i) {
    const auto start = static_cast<uint32_t>(i);
    for (int64_t w = 0; w < options.walkers; ++w) at[i][w][0] = i;
    for (int64_t t = 0; t < hops; ++t) {
      struct Block {
        uint32_t first;
        std::vector<int64_t> places;
        int64_t used = 0;
      };
      std::map<std::pair<int64_t, int64_t>, Block> blocks;  // by ensemble and node
      for (int64_t w = 0; w < options.walkers; ++w) {
        const int64_t u = at[i][w][t];
        if (u < 0) continue;
        const auto number = static_cast<uint32_t>(options.first_walker + w);
        const PhiloxWords own = philox({start, number, static_cast<uint32_t>(t / 2), 0}, key);
        uint32_t halting = word_of(own, 2 * (t % 2));
        if (antithetic && number % 2 == 1) {
          halting =
              word_of(philox({start, number - 1, static_cast<uint32_t>(t / 2), 0}, key), 2 * (t % 2)) + (1u << 31);
        }
        const double probability = fixed || t < options.exact_hops ? 0 : options.halting_probability;
        if (halting < std::round(std::ldexp(probability, 32))) continue;
        const int64_t degree = offsets[u + 1] - offsets[u];
        if (degree == 0) continue;
        int64_t place = random_below(word_of(own, 2 * (t % 2) + 1), static_cast<uint32_t>(degree));
        if (repelling) {
          Block& block = blocks[{options.ensemble ? w / options.ensemble : 0, u}];
          if (block.places.empty() || block.used == degree) {
            block = {number, std::vector<int64_t>(static_cast<size_t>(degree))};
            for (int64_t k = 0; k < degree; ++k) block.places[k] = k;
          }
          const int64_t j = block.used++;
          const PhiloxWords words =
              philox({start, block.first, static_cast<uint32_t>(t), static_cast<uint32_t>(1 + j / 4)}, key);
          std::swap(block.places[j],
                    block.places[j + random_below(word_of(words, j % 4), static_cast<uint32_t>(degree - j))]);
          place = block.places[j];
        }
        at[i][w][t + 1] = columns[offsets[u] + place];
      }
    }
  }
  return walks;
}

TEST(WalkLayout, PhiloxGivesThePublishedNumbers) {
  const auto expect = [](PhiloxWords counter, PhiloxKey key, PhiloxWords expected) {
    const PhiloxWords words = philox(counter, key);
    for (int64_t k = 0; k < 4; ++k) EXPECT_EQ(word_of(words, k), word_of(expected, k));
  };
  expect({0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  expect({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  expect({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST(WalkLayout, TablesHoldTheWalksThatTheHeaderPromises) {
  const std::vector<Graph> graphs = {Graph::grid({6, 7}).normalised(.8).to(at::kDouble), weighted_digraph(),
                                     Graph::star(12).normalised().to(at::kDouble), Graph::path(1)};
  const std::vector<WalkOptions> all = {
      {.walkers = 5, .halting_probability = .3, .max_hops = 7, .seed = 3},
      {.walkers = 4, .halting_probability = .5, .max_hops = 20, .exact_hops = 2, .seed = uint64_t{1} << 40},
      {.walkers = 3, .fixed_hops = 5, .seed = 1, .first_walker = 17},
      {.walkers = 7, .halting_probability = .2, .max_hops = 6, .coupling = Coupling::antithetic, .seed = 9},
      {.walkers = 11, .halting_probability = .2, .max_hops = 5, .coupling = Coupling::repelling, .seed = 4},
      {.walkers = 12, .fixed_hops = 4, .coupling = Coupling::repelling, .ensemble = 6, .seed = 4, .first_walker = 5},
      {.walkers = 12,
       .halting_probability = .1,
       .max_hops = 6,
       .coupling = Coupling::antithetic_repelling,
       .ensemble = 4,
       .seed = 8,
       .first_walker = 6}};
  for (const Graph& graph : graphs) {
    for (WalkOptions options : all) {
      options.group_products = true;
      const WalkTable table = sample_walks(graph, options);
      expect_same(table, walk_table_from_walks(graph, plain_walks(graph, options, table.max_hops()), options));
    }
  }
}

TEST(WalkLayout, DoesNotDependOnTheNumberOfThreads) {
  const Graph grid = Graph::grid({31, 37}).normalised(.8);
  const int threads = at::get_num_threads();
  for (const Coupling coupling : {Coupling::independent, Coupling::antithetic_repelling}) {
    const WalkOptions options{.walkers = 6, .halting_probability = .2, .coupling = coupling, .group_products = true};
    at::set_num_threads(1);
    const WalkTable expected = sample_walks(grid, options);
    for (const int count : {2, 7}) {
      at::set_num_threads(count);
      expect_same(sample_walks(grid, options), expected);
    }
  }
  at::set_num_threads(threads);
}

/// FNV-1a over columns and hops.
uint64_t checksum(const WalkTable& table) {
  uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&](uint64_t value) { hash = (hash ^ value) * 0x100000001b3; };
  const int32_t* columns = table.columns().const_data_ptr<int32_t>();
  const int16_t* hops = table.hops().const_data_ptr<int16_t>();
  for (int64_t q = 0; q < table.columns().size(0); ++q) {
    add(static_cast<uint32_t>(columns[q]));
    add(static_cast<uint16_t>(hops[q]));
  }
  return hash;
}

TEST(WalkLayout, SameSeedGivesTheSameTableForEver) {
  const Graph grid = Graph::grid({40, 25});
  EXPECT_EQ(checksum(sample_walks(grid, {.walkers = 4, .halting_probability = .5, .seed = 7})), 13687403602720162361u);
  EXPECT_EQ(checksum(sample_walks(grid, {.walkers = 6,
                                         .halting_probability = .1,
                                         .max_hops = 10,
                                         .coupling = Coupling::antithetic_repelling,
                                         .seed = 7})),
            8217278757806462998u);
  const at::Tensor proposal = at::arange(1, grid.num_entries() + 1, at::kDouble);
  EXPECT_EQ(checksum(sample_walks(grid, {.walkers = 4,
                                         .halting_probability = .3,
                                         .proposal = Proposal::given,
                                         .proposal_weights = proposal,
                                         .seed = 7})),
            12188242347351036623u);
}

}  // namespace
}  // namespace topomask::testing
