#include "report/statistics.h"

#include <array>
#include <cmath>
#include <numeric>

namespace topomask::apps {

Spread spread(const std::vector<double>& values) {
  Spread result{.count = static_cast<int64_t>(values.size())};
  if (values.empty()) return result;
  const auto count = static_cast<double>(values.size());
  result.mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0;
  for (const double value : values) squares += (value - result.mean) * (value - result.mean);
  if (values.size() > 1) result.deviation = std::sqrt(squares / (count - 1));
  return result;
}

double student_quantile(double degrees) {
  constexpr std::array kTable{12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228};
  if (degrees <= 1) return kTable[0];
  if (degrees < static_cast<double>(kTable.size())) {  // linear in 1/degrees, in which it is nearly so
    const auto below = static_cast<size_t>(degrees);
    const double low = 1.0 / static_cast<double>(below), high = 1.0 / static_cast<double>(below + 1);
    return std::lerp(kTable[below - 1], kTable[below], (low - 1 / degrees) / (low - high));
  }
  constexpr double kNormal = 1.95996;  // with the first terms of the expansion in 1/degrees
  return kNormal + (std::pow(kNormal, 3) + kNormal) / (4 * degrees) +
         (5 * std::pow(kNormal, 5) + 16 * std::pow(kNormal, 3) + 3 * kNormal) / (96 * degrees * degrees);
}

Comparison compare(const std::vector<double>& a, const std::vector<double>& b, int64_t images) {
  const Spread of_a = spread(a), of_b = spread(b);
  Comparison result{.difference = of_a.mean - of_b.mean};
  if (of_a.count >= 2 && of_b.count >= 2) {
    const double error_a = of_a.deviation * of_a.deviation / static_cast<double>(of_a.count);
    const double error_b = of_b.deviation * of_b.deviation / static_cast<double>(of_b.count);
    const double sum = error_a + error_b;
    const double degrees = sum > 0 ? sum * sum /
                                         (error_a * error_a / static_cast<double>(of_a.count - 1) +
                                          error_b * error_b / static_cast<double>(of_b.count - 1))
                                   : 1;
    result.noise = student_quantile(degrees) * std::sqrt(sum);
    result.by = "seeds";
  } else if (of_a.count > 0 && of_b.count > 0 &&
             of_a.count + of_b.count > 2) {  // a single run borrows the other's spread
    const double deviation = std::max(of_a.deviation, of_b.deviation);
    const auto runs = static_cast<double>(std::max(of_a.count, of_b.count));
    result.noise = student_quantile(runs - 1) * deviation * std::sqrt(1 + 1 / runs);
    result.by = "seeds";
  } else if (images > 0 && of_a.count > 0 && of_b.count > 0) {
    const auto variance = [&](double accuracy) { return accuracy * (1 - accuracy) / static_cast<double>(images); };
    result.noise = 1.96 * std::sqrt(variance(of_a.mean) + variance(of_b.mean));
    result.by = "test images";
  }
  result.within_noise = result.by.empty() || std::abs(result.difference) <= result.noise;
  return result;
}

}  // namespace topomask::apps
