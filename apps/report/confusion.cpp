#include <ATen/ATen.h>

#include "core/out_of_memory.h"
#include "report/sections.h"

namespace topomask::apps {
namespace {

constexpr int64_t kClassesShown = 32;

/// Rows are true classes, columns guesses; cells are shares of the row.
std::string matrix(Task& task, const std::string& split) {
  const at::Tensor confusion = task.evaluate(split).confusion;
  const std::vector<std::string> classes = task.classes();
  const at::Tensor shares = confusion.to(at::kDouble) / confusion.sum(1, true).clamp_min(1).to(at::kDouble);
  std::vector<std::vector<std::string>> rows{{"true class"}};
  for (const std::string& name : classes) rows[0].push_back(escape(name));
  const bool one_each = confusion.sum().item<int64_t>() == task.size(split);  // a sentence has a label for each word
  rows[0].emplace_back(one_each ? task.items() : "labels");
  for (size_t i = 0; i < classes.size(); ++i) {
    const auto row = static_cast<int64_t>(i);
    std::vector<std::string>& cells = rows.emplace_back();
    cells.push_back(escape(classes[i]));
    for (int64_t j = 0; j < confusion.size(1); ++j) {
      const auto share = shares[row][j].item<double>();
      cells.push_back(format("<td style=\"background:rgba(%s,%.2f)\">%.0f %%", j == row ? "46,160,67" : "218,54,51",
                             0.55 * share, 100 * share));
    }
    cells.push_back(as_cell(confusion[row].sum().item<int64_t>()));
  }
  return html_table(rows);
}

}  // namespace

Section confusion_section(const std::vector<GroupTask>& tasks, const std::string& split) {
  std::string body =
      "<p>How often a true class (row) was taken for each class (column), of the first run of each "
      "variant on " +
      split + " data.</p>\n";
  for (const GroupTask& group : tasks) {
    Task& task = *group.loaded.task;
    try {
      if (std::ssize(task.classes()) > kClassesShown) {
        body += format("<p class=\"soft\">%s: there are more than %ld classes.</p>\n", escape(group.label).c_str(),
                       static_cast<long>(kClassesShown));
        continue;
      }
      body += "<h3>" + escape(group.label) + "</h3>\n" + matrix(task, split);
    } catch (const c10::Error& error) {
      body += "<p class=\"soft\">" + escape(group.label) + ": " + escape(error_text(error)) + "</p>\n";
    }
  }
  return {"confusion", "Which classes are taken for which", body};
}

}  // namespace topomask::apps
