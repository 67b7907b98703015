#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <bit>
#include <cstring>

#include "core/checks.h"
#include "core/move.h"
#include "core/recycled.h"
#include "io/checksum.h"
#include "io/input_file.h"
#include "io/output_file.h"
#include "walks/check_arrays.h"
#include "walks/plan.h"

// Little-endian: the header below, then the arrays in the order of `Content`, then the checksum of the arrays.

namespace topomask {
namespace {

constexpr char kMagic[8] = {'T', 'M', 'W', 'A', 'L', 'K', 'S', '\n'};
constexpr uint32_t kVersion = 1;
constexpr int64_t kNone = -1;

constexpr int64_t kSampled = 1, kProducts = 2, kDouble = 4, kProposalDouble = 8;  // flags

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t checksum;  ///< of what follows in the header
  int64_t walkers, max_hops, fixed_hops, exact_hops, coupling, ensemble, proposal, flags, first_walker;
  uint64_t seed;
  double halting_probability;
  int64_t table_max_hops, nodes, triples, products, survival, proposal_weights;  ///< sizes: kNone where there is none
};
static_assert(sizeof(Header) == 16 + 17 * 8);
static_assert(std::endian::native == std::endian::little);

uint32_t checksum_of(const Header& header) {
  constexpr size_t kSkipped = offsetof(Header, walkers);
  return io::extend_crc(0, {reinterpret_cast<const char*>(&header) + kSkipped, sizeof(header) - kSkipped});
}

/// The arrays after a header, in the order of the file.
std::vector<at::Tensor*> content(const Header& header, WalkTable::Arrays& arrays, WalkOptions& options) {
  std::vector<at::Tensor*> tensors = {&arrays.offsets, &arrays.columns, &arrays.hops, &arrays.loads, &arrays.counts};
  if (header.flags & kProducts) {
    for (at::Tensor* tensor : {&arrays.product_offsets, &arrays.product_hops, &arrays.product_values}) {
      tensors.push_back(tensor);
    }
  }
  if (header.survival != kNone) tensors.push_back(&options.survival);
  if (header.proposal_weights != kNone) tensors.push_back(&options.proposal_weights);
  return tensors;
}

Header header_of(const WalkTable& table) {
  const WalkOptions& options = table.options();
  const auto size = [](const at::Tensor& tensor) { return tensor.defined() ? tensor.size(0) : kNone; };
  Header header{.version = kVersion,
                .walkers = options.walkers,
                .max_hops = options.max_hops,
                .fixed_hops = options.fixed_hops.value_or(kNone),
                .exact_hops = options.exact_hops,
                .coupling = static_cast<int64_t>(options.coupling),
                .ensemble = options.ensemble,
                .proposal = static_cast<int64_t>(options.proposal),
                .first_walker = options.first_walker,
                .seed = options.seed,
                .halting_probability = options.halting_probability,
                .table_max_hops = table.max_hops(),
                .nodes = table.num_nodes(),
                .triples = table.columns().size(0),
                .products = size(table.product_values()),
                .survival = size(options.survival),
                .proposal_weights = size(options.proposal_weights)};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  const bool wide = options.proposal_weights.defined() && options.proposal_weights.scalar_type() == at::kDouble;
  header.flags = (table.sampled() ? kSampled : 0) | (table.has_group_products() ? kProducts : 0) |
                 (table.dtype() == at::kDouble ? kDouble : 0) | (wide ? kProposalDouble : 0);
  header.checksum = checksum_of(header);
  return header;
}

/// A header whose sizes account for every byte of the file.
Header read_header(io::InputFile& file) {
  const io::Origin& origin = file.origin();
  if (!file.size()) io::fail(origin, "expected a regular file");
  Header header{};
  if (*file.size() < static_cast<int64_t>(sizeof(header))) io::fail(origin, "too short for a walk table");
  file.read_at(0, reinterpret_cast<char*>(&header), sizeof(header));
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0) io::fail(origin, "not a walk table");
  if (header.version != kVersion) {
    io::fail(origin, "walk table of version ", header.version, ", this library reads version ", kVersion);
  }
  if (header.checksum != checksum_of(header)) io::fail(origin, "the header is damaged");
  const bool products = header.flags & kProducts;
  const int64_t scalar = header.flags & kDouble ? 8 : 4, size = *file.size();
  const auto check = [&](int64_t count, int64_t least) {
    // Every element takes a byte at least; this also keeps the sum below from overflowing.
    if (count < least || count > size) io::fail(origin, "the header promises ", count, " elements in ", size, " bytes");
  };
  for (const int64_t count : {header.nodes, header.triples}) check(count, 0);
  for (const int64_t count : {header.products, header.survival, header.proposal_weights}) check(count, kNone);
  if (products != (header.products != kNone)) io::fail(origin, "the header contradicts itself on group products");
  int64_t expected = static_cast<int64_t>(sizeof(header) + sizeof(uint32_t)) + (header.nodes + 1) * 8 +
                     header.triples * (4 + 2 + scalar + 4);
  if (products) expected += (header.nodes + 1) * 8 + header.products * (4 + scalar);
  if (header.survival != kNone) expected += header.survival * 8;
  if (header.proposal_weights != kNone) expected += header.proposal_weights * (header.flags & kProposalDouble ? 8 : 4);
  if (expected != size) io::fail(origin, "expected ", expected, " bytes, as the header says, got ", size);
  return header;
}

WalkOptions options_of(const io::Origin& origin, const Header& header) {
  if (header.coupling < 0 || header.coupling > 3 || header.proposal < 0 || header.proposal > 2) {
    io::fail(origin, "unknown coupling ", header.coupling, " or proposal ", header.proposal);
  }
  WalkOptions options{.walkers = header.walkers,
                      .halting_probability = header.halting_probability,
                      .max_hops = header.max_hops,
                      .exact_hops = header.exact_hops,
                      .coupling = static_cast<Coupling>(header.coupling),
                      .ensemble = header.ensemble,
                      .proposal = static_cast<Proposal>(header.proposal),
                      .group_products = (header.flags & kProducts) != 0,
                      .seed = header.seed,
                      .first_walker = header.first_walker};
  if (header.fixed_hops != kNone) options.fixed_hops = header.fixed_hops;
  if (header.survival != kNone) options.survival = at::empty({header.survival}, at::kDouble);
  if (header.proposal_weights != kNone) {
    options.proposal_weights =
        at::empty({header.proposal_weights}, header.flags & kProposalDouble ? at::kDouble : at::kFloat);
  }
  return options;
}

}  // namespace

void save_walks(const WalkTable& table, const std::string& path) {
  if (!table.device().is_cpu()) return save_walks(table.to(at::kCPU), path);
  const io::Origin origin{"save_walks", path};
  if (path.ends_with(".gz")) io::fail(origin, "walk tables are not compressed: expected another name than .gz");
  const Header header = header_of(table);
  WalkTable::Arrays arrays{table.offsets(), table.columns(),         table.hops(),         table.loads(),
                           table.counts(),  table.product_offsets(), table.product_hops(), table.product_values()};
  WalkOptions options = table.options();
  io::OutputFile file(origin);
  file.put({reinterpret_cast<const char*>(&header), sizeof(header)});
  uint32_t checksum = 0;
  for (const at::Tensor* tensor : content(header, arrays, options)) {
    const at::Tensor kept = tensor->detach().contiguous();
    const std::string_view bytes(static_cast<const char*>(kept.const_data_ptr()), kept.nbytes());
    checksum = io::extend_crc(checksum, bytes);
    file.put(bytes);
  }
  file.put({reinterpret_cast<const char*>(&checksum), sizeof(checksum)});
  file.commit();
}

WalkTable load_walks(const std::string& path) {
  io::InputFile file({"load_walks", path});
  const io::Origin& origin = file.origin();
  const Header header = read_header(file);
  WalkOptions options = options_of(origin, header);
  const at::ScalarType dtype = header.flags & kDouble ? at::kDouble : at::kFloat;
  WalkTable::Arrays arrays{recycled_empty({header.nodes + 1}, at::kLong), recycled_empty({header.triples}, at::kInt),
                           recycled_empty({header.triples}, at::kShort), recycled_empty({header.triples}, dtype),
                           recycled_empty({header.triples}, at::kInt)};
  if (header.flags & kProducts) {
    arrays.product_offsets = recycled_empty({header.nodes + 1}, at::kLong);
    arrays.product_hops = recycled_empty({header.products, 2}, at::kShort);
    arrays.product_values = recycled_empty({header.products}, dtype);
  }
  int64_t at = sizeof(header);
  uint32_t checksum = 0;
  for (const at::Tensor* tensor : content(header, arrays, options)) {
    auto* bytes = static_cast<char*>(tensor->mutable_data_ptr());
    file.read_at(at, bytes, tensor->nbytes());
    checksum = io::extend_crc(checksum, {bytes, tensor->nbytes()});
    at += static_cast<int64_t>(tensor->nbytes());
  }
  uint32_t last = 0;
  file.read_at(at, reinterpret_cast<char*>(&last), sizeof(last));
  if (last != checksum) io::fail(origin, "the content is damaged: its checksum does not match");
  const std::string op = c10::str("load_walks: ", path);
  const WalkPlan plan(op.c_str(), options);
  if (plan.max_hops != header.table_max_hops) io::fail(origin, "the header contradicts itself on the longest walk");
  check_table_arrays(op.c_str(), arrays, header.nodes, plan.max_hops);
  return {std::move(arrays), std::move(options), plan.max_hops, (header.flags & kSampled) != 0};
}

}  // namespace topomask
