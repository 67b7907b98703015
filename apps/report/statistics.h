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

/// The accuracy of a run and the seed it was trained with.
struct SeedResult {
  uint64_t seed = 0;
  double accuracy = 0;
};

/// What the seeds show about a difference between two variants.
struct Comparison {
  enum class Test {
    none,    ///< no claim: one side has a single seed, or no seed differs from another
    paired,  ///< Student's t of the differences seed by seed
    welch,   ///< Welch's t of two independent samples
  };

  double difference = 0;  ///< of the means, a − b
  double noise = 0;       ///< half the 95 % interval of the difference
  Test test = Test::none;

  bool judged() const { return test != Test::none; }
  bool beyond_noise() const { return judged() && (difference > noise || difference < -noise); }
};

/// Accuracies over seeds. Where both sides have the same two seeds or more, by the differences of each seed (paired
/// t-test); with other seeds, two or more on both sides, by Welch's t-test. A side with one seed allows no claim: how
/// much a seed changes is not known then, and it is more than the sampling error of the test images.
Comparison compare(const std::vector<SeedResult>& a, const std::vector<SeedResult>& b);

/// The t with P(|T| ≤ t) = 0.95 for this many degrees of freedom.
double student_quantile(double degrees);

}  // namespace topomask::apps
