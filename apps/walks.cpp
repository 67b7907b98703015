#include <ATen/ATen.h>

#include <chrono>

#include "activity.h"
#include "argument_checks.h"
#include "command.h"
#include "mask_arguments.h"
#include "output.h"

namespace topomask::apps {
namespace {

struct WalksCommand {
  GraphArguments graph;
  WalkArguments walks;
  std::string save;
};

Json describe_table(const WalkTable& table) {
  const double nodes = static_cast<double>(std::max<int64_t>(1, table.num_nodes()));
  const at::Tensor counts = table.counts().to(at::kLong), hops = table.hops().to(at::kLong);
  const auto steps = counts.mul(hops > 0).sum().item<int64_t>();
  Json result{{"nodes", table.num_nodes()},
              {"walkers", table.walkers()},
              {"walks", table.num_nodes() * table.walkers()},
              {"steps", steps},
              {"mean_length", static_cast<double>(steps) / (nodes * static_cast<double>(table.walkers()))},
              {"longest", hops.numel() > 0 ? hops.max().item<int64_t>() : 0},
              {"triples", table.columns().size(0)},
              {"entries", table.pattern()->entries()},
              {"entries_per_row", static_cast<double>(table.pattern()->entries()) / nodes}};
  Json rows = Json::array();
  const at::Tensor per_hop = at::bincount(hops, counts.to(at::kDouble));
  for (int64_t hop = 0; hop < std::min<int64_t>(per_hop.size(0), 10); ++hop) {
    rows.push_back({{"hop", hop},
                    {"walkers", static_cast<int64_t>(per_hop[hop].item<double>())},
                    {"nodes_met_per_row", static_cast<double>((hops == hop).sum().item<int64_t>()) / nodes}});
  }
  if (!rows.empty()) result["by_hop"] = rows;
  return result;
}

}  // namespace

void add_walks(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<WalksCommand>();
  CLI::App* command = add_command(
      app, context, "walks", "Sample random walks from every node of a graph; statistics, and a file",
      "  topomask walks grid:64x64 --walkers 4\n"
      "  topomask walks roads.txt.gz --walkers 8 --halting-probability 0.3 --save roads.walks\n"
      "  topomask walks hypercube:10 --coupling repelling --fixed-hops 3 --json",
      [arguments, &context](Activity& activity) {
        check_folder_of("walks", "--save", arguments->save);
        const WalkOptions options = arguments->walks.make();
        const NamedGraph named = arguments->graph.make(activity);
        announce_walks(activity, named.graph.num_nodes(), options);
        activity.stage("sampling walks");
        const auto start = std::chrono::steady_clock::now();
        const WalkTable table = sample_walks(named.graph, options);
        const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        activity.stage("counting");
        Json result = describe_table(table);
        result["seconds"] = seconds;
        result["walks_per_second"] = static_cast<double>(table.num_nodes() * table.walkers()) / std::max(seconds, 1e-9);
        if (!arguments->save.empty()) {
          activity.stage("writing " + arguments->save);
          save_walks(table, arguments->save);
          result["file"] = arguments->save;
        }
        activity.finish();
        print(result, context.json);
        return 0;
      });
  arguments->graph.add_to(*command);
  arguments->walks.add_to(*command);
  command->add_option("--save", arguments->save, "write the table to this file");
}

}  // namespace topomask::apps
