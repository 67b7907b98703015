#include "topomask/tasks/task.h"

#include <map>

#include "core/option_checks.h"

namespace topomask {
namespace {

std::map<std::string, TaskFactory>& task_registry() {
  static std::map<std::string, TaskFactory> factories;
  return factories;
}

}  // namespace

void Task::make_model(at::Device device) {
  model_ = new_model();
  model_->to(device);
  device_ = device;
}

torch::nn::Module& Task::model() const {
  TORCH_CHECK(model_ != nullptr, "Task::model: make_model must come first");
  return *model_;
}

TaskRegistration::TaskRegistration(std::string name, TaskFactory factory) {
  const bool added = task_registry().emplace(name, std::move(factory)).second;
  TORCH_CHECK(added, "TaskRegistration: name must be new, got ", name);
}

std::unique_ptr<Task> make_task(const RunConfig& config) {
  std::vector<std::string> names;
  for (const auto& [name, factory] : task_registry()) names.push_back(name);
  const std::string origin = "train: ";
  OptionChecks(origin).one_of("task", config.task, names);
  config.train.check();
  return task_registry().at(config.task)(config);
}

}  // namespace topomask
