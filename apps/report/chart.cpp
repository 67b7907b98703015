#include "report/chart.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "report/html.h"

namespace topomask::apps {
namespace {

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -low;

  void include(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  /// Never empty; `share` of its length is added on both sides.
  void settle(double share) {
    if (low > high) low = 0, high = 1;
    if (low == high) {  // one value, in the middle
      const double half = high == 0 ? 0.5 : 0.05 * std::abs(high);
      low -= half;
      high += half;
    }
    const double length = high - low;
    low -= share * length;
    high += share * length;
  }
};

/// From values to places of the picture; y runs upwards.
struct Frame {
  double left, right, top, bottom;
  Range x, y;

  double at_x(double value) const { return left + (value - x.low) / (x.high - x.low) * (right - left); }
  double at_y(double value) const { return bottom - (value - y.low) / (y.high - y.low) * (bottom - top); }
};

std::string tick_text(double value, bool percent) {
  if (percent) return format("%.4g %%", 100 * value);
  if (std::abs(value) >= 10000) return format("%.4gk", value / 1000);
  return format("%.4g", std::abs(value) < 1e-12 ? 0.0 : value);
}

std::string text_at(double x, double y, const std::string& anchor, const std::string& text) {
  return format("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>", x, y, anchor.c_str(), escape(text).c_str());
}

std::string rule(double x1, double y1, double x2, double y2) {
  return format("<line class=\"grid\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>", x1, y1, x2, y2);
}

std::string open_svg(int width, int height, const std::string& title) {
  return format(
      "<svg class=\"chart\" viewBox=\"0 0 %d %d\" style=\"max-width:%dpx\" role=\"img\" "
      "aria-label=\"%s\"><title>%s</title>",
      width, height, width * 6 / 5, escape(title).c_str(), escape(title).c_str());
}

std::string axes(const Frame& frame, const ChartOptions& options) {
  std::string svg;
  for (const double tick : round_ticks(frame.y.low, frame.y.high, 5)) {
    svg += rule(frame.left, frame.at_y(tick), frame.right, frame.at_y(tick));
    const std::string text = options.log_y ? tick_text(std::pow(10, tick), false) : tick_text(tick, options.y_percent);
    svg += text_at(frame.left - 6, frame.at_y(tick) + 4, "end", text);
  }
  for (const double tick : round_ticks(frame.x.low, frame.x.high, 5)) {
    svg += text_at(frame.at_x(tick), frame.bottom + 17, "middle", tick_text(tick, false));
  }
  svg += text_at((frame.left + frame.right) / 2, frame.bottom + 34, "middle", options.x_label);
  svg += text_at(2, frame.top - 8, "start", options.y_label);
  return svg;
}

}  // namespace

std::vector<double> round_ticks(double low, double high, int count) {
  const double rough = (high - low) / std::max(1, count), power = std::pow(10, std::floor(std::log10(rough)));
  const double share = rough / power, step = power * (share < 1.5 ? 1 : share < 3.5 ? 2 : share < 7.5 ? 5 : 10);
  std::vector<double> ticks;
  for (double k = std::ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; ++k) ticks.push_back(k * step);
  return ticks;
}

std::string line_chart(const std::vector<Line>& lines, const ChartOptions& options) {
  Frame frame{52, options.width - 24.0, 24, options.height - 42.0, {}, {}};  // half a label fits next to the last tick
  const auto height_of = [&](double y) { return options.log_y ? std::log10(y) : y; };
  for (const Line& line : lines) {
    for (const auto& [x, y] : line.points) {
      frame.x.include(x);
      frame.y.include(height_of(y));
    }
  }
  if (options.y_from_zero) frame.y.include(0);
  frame.x.settle(0);
  frame.y.settle(options.y_from_zero ? 0.02 : 0.05);
  std::string svg = open_svg(options.width, options.height, options.title) + axes(frame, options);
  for (const Line& line : lines) {
    std::string points;
    for (const auto& [x, y] : line.points) {
      if (std::isfinite(height_of(y))) points += format("%.1f,%.1f ", frame.at_x(x), frame.at_y(height_of(y)));
    }
    svg += format(
        "<polyline fill=\"none\" stroke-linejoin=\"round\" style=\"stroke:%s\" stroke-width=\"%.1f\" "
        "stroke-opacity=\"%.2f\"%s points=\"%s\"/>",
        line.colour.c_str(), line.width, line.opacity, line.dashed ? " stroke-dasharray=\"4 4\"" : "", points.c_str());
    if (line.points.size() != 1 || points.empty()) continue;  // a single point is no line
    svg += format("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" style=\"fill:%s\"/>", frame.at_x(line.points[0].first),
                  frame.at_y(height_of(line.points[0].second)), line.colour.c_str());
  }
  return svg + "</svg>\n";
}

std::string dot_chart(const std::vector<std::pair<std::string, std::vector<double>>>& rows,
                      const ChartOptions& options) {
  constexpr double kRow = 30;
  size_t longest = 0;
  for (const auto& row : rows) longest = std::max(longest, row.first.size());
  const double names = std::min(200.0, 14 + 7.2 * static_cast<double>(longest));
  const int height = static_cast<int>(kRow * static_cast<double>(rows.size()) + 48);
  Frame frame{names, options.width - 16.0, 8, height - 40.0, {}, {}};
  for (const auto& row : rows) {
    for (const double value : row.second) frame.x.include(value);
  }
  frame.x.settle(0.08);
  std::string svg = open_svg(options.width, height, options.title);
  for (const double tick : round_ticks(frame.x.low, frame.x.high, 6)) {
    svg += rule(frame.at_x(tick), frame.top, frame.at_x(tick), frame.bottom);
    svg += text_at(frame.at_x(tick), frame.bottom + 17, "middle", tick_text(tick, options.y_percent));
  }
  svg += text_at((frame.left + frame.right) / 2, frame.bottom + 34, "middle", options.x_label);
  for (size_t r = 0; r < rows.size(); ++r) {
    const double y = frame.top + kRow * (static_cast<double>(r) + 0.5);
    svg += text_at(frame.left - 10, y + 4, "end", rows[r].first);
    double sum = 0;
    for (const double value : rows[r].second) {
      sum += value;
      svg += format("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"5\" fill-opacity=\".55\" style=\"fill:%s\"/>",
                    frame.at_x(value), y, series_colour(r).c_str());
    }
    const double mean = frame.at_x(sum / static_cast<double>(std::max<size_t>(1, rows[r].second.size())));
    svg += format("<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke-width=\"2.5\" style=\"stroke:%s\"/>",
                  mean, mean, y - 10, y + 10, series_colour(r).c_str());
  }
  return svg + "</svg>\n";
}

std::string bar_chart(const std::vector<Bar>& bars, const std::string& title) {
  constexpr double kRow = 26, kWidth = 480, kText = 90;
  size_t longest = 0;
  double largest = 0;
  for (const Bar& bar : bars) {
    longest = std::max(longest, bar.name.size());
    largest = std::max(largest, bar.value);
  }
  const double left = std::min(200.0, 14 + 7.2 * static_cast<double>(longest)), room = kWidth - left - kText;
  std::string svg =
      open_svg(static_cast<int>(kWidth), static_cast<int>(kRow * static_cast<double>(bars.size()) + 4), title);
  for (size_t i = 0; i < bars.size(); ++i) {
    const double top = kRow * static_cast<double>(i) + 4;
    const double length = largest > 0 ? room * bars[i].value / largest : 0;
    svg += text_at(left - 10, top + 14, "end", bars[i].name);
    svg += format("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"18\" rx=\"2\" style=\"fill:%s\"/>", left, top,
                  std::max(1.0, length), bars[i].colour.c_str());
    svg += text_at(left + length + 6, top + 14, "start", bars[i].text);
  }
  return svg + "</svg>\n";
}

}  // namespace topomask::apps
