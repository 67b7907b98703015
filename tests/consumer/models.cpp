// Trains a small vision transformer for two steps through the installed headers, and looks at what came of it.

#include <topomask/config.h>
#include <topomask/nn/variants.h>
#include <topomask/train/checkpoint.h>
#include <topomask/train/train.h>

#include <cmath>
#include <iostream>

using namespace topomask;

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  RunConfig config = parse_config(R"({"data": {"image_size": 16, "synthetic_train": 16, "synthetic_test": 8},
                                      "model": {"patch_size": 4, "width": 16, "depth": 1, "heads": 2, "walkers": 2,
                                                "hops": 3},
                                      "train": {"batch_size": 8, "log_every": 1}})",
                                  "consumer: ");
  override_config(config, "model.variant", "grf");
  override_config(config, "train.steps", "2");
  int lines = 0;
  double accuracy = -1;
  const TrainHooks hooks{.on_metrics = [&](const TrainMetrics& metrics) { lines += std::isfinite(metrics.loss); },
                         .on_evaluation = [&](const EvalMetrics& metrics) { accuracy = metrics.accuracy; },
                         .progress = false};
  const TrainResult result = train(config, argv[1], hooks);
  const LoadedModel loaded = load_model(std::filesystem::path(argv[1]) / kCheckpointName);
  WalkPool walks(loaded.config.model, loaded.config.train.seed);
  std::cout << result.steps << " steps, " << lines << " lines of metrics, evaluated: " << (accuracy >= 0)
            << ", checkpoint of step " << loaded.step << ", walks over " << walks.table(0, 0).num_nodes()
            << " patches\n";
}
