#pragma once

#include <string>
#include <utility>
#include <vector>

namespace topomask::apps {

struct Line {
  std::vector<std::pair<double, double>> points;
  std::string colour;  ///< CSS
  double width = 2, opacity = 1;
  bool dashed = false;
};

struct ChartOptions {
  std::string title;  ///< read out by screen readers
  std::string x_label, y_label;
  int width = 480, height = 300;
  bool y_from_zero = false, y_percent = false;
  bool log_y = false;
};

/// A line chart as inline SVG, with round ticks; points that are not finite are left out.
std::string line_chart(const std::vector<Line>& lines, const ChartOptions& options);

/// Dots and their mean for each name, on one axis from left to right: accuracies over seeds.
std::string dot_chart(const std::vector<std::pair<std::string, std::vector<double>>>& rows,
                      const ChartOptions& options);

/// Horizontal bars from zero, with their values as text.
struct Bar {
  std::string name;
  double value;
  std::string text;
  std::string colour;
};
std::string bar_chart(const std::vector<Bar>& bars, const std::string& title);

/// Round numbers that span [low, high]: about `count` of them, none outside.
std::vector<double> round_ticks(double low, double high, int count);

}  // namespace topomask::apps
