#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace topomask::apps {

struct Spread {
  int64_t count = 0;
  double mean = 0;
  double deviation = 0;  ///< sample standard deviation; 0 for fewer than two values
};

Spread spread(const std::vector<double>& values);

/// Whether two means differ by more than chance explains.
struct Comparison {
  double difference = 0;  ///< of the means, a − b
  double noise = 0;       ///< half the 95 % interval of the difference
  bool within_noise = true;
  std::string by;  ///< "seeds": Welch's t-test; "test images": one seed each, binomial error; "": cannot be said
};

/// Accuracies over seeds. With two seeds or more on both sides by Welch's interval over seeds; a side with one seed
/// borrows the spread of the other; with one seed each by the sampling error of `images` test images, which leaves the
/// luck of a seed out.
Comparison compare(const std::vector<double>& a, const std::vector<double>& b, int64_t images);

/// The t with P(|T| ≤ t) = 0.95 for this many degrees of freedom.
double student_quantile(double degrees);

}  // namespace topomask::apps
