#include <ATen/ATen.h>

#include <cmath>

#include "report/chart.h"
#include "report/sections.h"

namespace topomask::apps {
namespace {

constexpr int64_t kTermsShown = 24;

std::string charts(const Modulation& learned, const at::Tensor& modulation) {
  const int64_t terms = std::min(modulation.size(2), kTermsShown);
  std::string body, names;
  Line start{.colour = "var(--soft)", .width = 1.5, .dashed = true};
  for (int64_t k = 0; k < terms; ++k) {
    const double exponent = -learned.decay * static_cast<double>(k);
    start.points.emplace_back(k, learned.added ? exponent : std::exp(exponent));
  }
  for (int64_t layer = 0; layer < modulation.size(0); ++layer) {
    std::vector<Line> lines{start};
    for (int64_t head = 0; head < modulation.size(1); ++head) {
      if (modulation[layer][head].isnan().any().item<bool>()) continue;  // the layer has fewer heads
      Line line{.colour = series_colour(static_cast<size_t>(head)), .width = 1.8};
      for (int64_t k = 0; k < terms; ++k) line.points.emplace_back(k, modulation[layer][head][k].item<double>());
      lines.push_back(std::move(line));
    }
    body += "<figure>" +
            line_chart(lines, {.title = format("%s, layer %ld: learned coefficients of each head",
                                               learned.label.c_str(), static_cast<long>(layer + 1)),
                               .x_label = "hops k",
                               .y_label = format("layer %ld", static_cast<long>(layer + 1)),
                               .width = 270,
                               .height = 190}) +
            "</figure>";
  }
  std::vector<std::string> heads;
  for (int64_t head = 0; head < modulation.size(1); ++head)
    heads.push_back(format("head %ld", static_cast<long>(head + 1)));
  return legend(heads) + "<div class=\"small\">" + body + "</div>\n";
}

}  // namespace

Section modulation_section(const std::vector<Modulation>& learned) {
  std::string body =
      "<p>Coefficients of walks (f) or of powers of the graph (&alpha;) by number of hops, learned for each "
      "head; dashed is where they started.</p>\n";
  bool any = false;
  for (const Modulation& one : learned) {
    if (!one.values.defined()) continue;
    any = true;
    body += "<h3>" + escape(one.label) + "</h3>\n" + charts(one, one.values.detach().to(at::kCPU, at::kDouble));
  }
  if (!any) body += "<p class=\"soft\">None of the variants here has such coefficients.</p>\n";
  return {"modulation", "Learned functions of hops", body};
}

}  // namespace topomask::apps
