#include "report/chart.h"
#include "report/sections.h"

namespace topomask::apps {
Section cost_section(const RunCollection& runs) {
  std::vector<std::vector<std::string>> rows{
      {"variant", "ms a step", runs.items + " a second", "peak memory, MB", "steps", "seconds", "device"}};
  std::vector<Bar> times, memory;
  for (size_t g = 0; g < runs.groups.size(); ++g) {
    const RunGroup& group = runs.groups[g];
    const double ms = group.mean(&RunRecord::step_ms);
    const double mb = group.mean(&RunRecord::memory_mb);
    const double seconds = group.mean(&RunRecord::seconds);
    const double rate = group.mean(&RunRecord::items_per_s);
    rows.push_back({escape(group.label), format("%.1f", ms), format("%.0f", rate), format("%.0f", mb),
                    std::to_string(group.runs[0].steps), format("%.0f", seconds), escape(group.config().train.device)});
    times.push_back({group.label, ms, format("%.1f ms", ms), series_colour(g)});
    memory.push_back({group.label, mb, format("%.0f MB", mb), series_colour(g)});
  }
  std::string body = html_table(rows) + "<div class=\"pair\"><figure>" + bar_chart(times, "Time of a training step") +
                     "<figcaption>a training step, median</figcaption></figure><figure>" +
                     bar_chart(memory, "Peak memory") +
                     "<figcaption>peak memory: on a GPU of tensors, on a CPU of the whole process, data included"
                     "</figcaption></figure></div>\n";
  return {"cost", "Time and memory", body};
}

}  // namespace topomask::apps
