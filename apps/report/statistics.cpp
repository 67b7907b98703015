#include "report/statistics.h"

#include <array>
#include <cmath>
#include <map>
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

namespace {

std::map<uint64_t, double> by_seed(const std::vector<SeedResult>& results) {
  std::map<uint64_t, double> sorted;
  for (const SeedResult& result : results) sorted.emplace(result.seed, result.accuracy);
  return sorted;
}

std::vector<double> values_of(const std::map<uint64_t, double>& results) {
  std::vector<double> values;
  for (const auto& [seed, accuracy] : results) values.push_back(accuracy);
  return values;
}

}  // namespace

Comparison compare(const std::vector<SeedResult>& a, const std::vector<SeedResult>& b) {
  const auto seeds_a = by_seed(a), seeds_b = by_seed(b);
  const Spread of_a = spread(values_of(seeds_a)), of_b = spread(values_of(seeds_b));
  Comparison result{.difference = of_a.mean - of_b.mean};
  if (of_a.count < 2 || of_b.count < 2) return result;
  std::vector<double> differences;
  for (const auto& [seed, accuracy] : seeds_a) {
    if (const auto other = seeds_b.find(seed); other != seeds_b.end()) differences.push_back(accuracy - other->second);
  }
  if (differences.size() == seeds_a.size() && differences.size() == seeds_b.size()) {
    const Spread paired = spread(differences);
    const auto count = static_cast<double>(paired.count);
    result.noise = student_quantile(count - 1) * paired.deviation / std::sqrt(count);
    result.test = Comparison::Test::paired;
  } else {
    const double error_a = of_a.deviation * of_a.deviation / static_cast<double>(of_a.count);
    const double error_b = of_b.deviation * of_b.deviation / static_cast<double>(of_b.count);
    const double sum = error_a + error_b;
    const double degrees = sum > 0 ? sum * sum /
                                         (error_a * error_a / static_cast<double>(of_a.count - 1) +
                                          error_b * error_b / static_cast<double>(of_b.count - 1))
                                   : 1;
    result.noise = student_quantile(degrees) * std::sqrt(sum);
    result.test = Comparison::Test::welch;
  }
  // Results that are equal to the last digit come from few test images, not from seeds that do not matter.
  if (result.noise < 1e-12) result.test = Comparison::Test::none;
  return result;
}

}  // namespace topomask::apps
