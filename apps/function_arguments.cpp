#include <ATen/ATen.h>

#include <map>

#include "argument_checks.h"
#include "command.h"
#include "mask_arguments.h"
#include "topomask/coefficients.h"

namespace topomask::apps {
namespace {

double parse_coefficient(const std::string& text) {
  double number = 0;
  if (!parse_number(text, number)) throw UsageError("--f: '" + text + "' is not a finite number");
  return number;
}

std::vector<double> parse_numbers(const std::string& text) {
  std::vector<double> numbers;
  size_t start = 0;
  for (size_t end = 0; (end = text.find(',', start)) != std::string::npos; start = end + 1) {
    numbers.push_back(parse_coefficient(text.substr(start, end - start)));
  }
  numbers.push_back(parse_coefficient(text.substr(start)));
  return numbers;
}

/// A named function of one number.
struct Series {
  const char* argument;
  at::Tensor (*make)(int64_t terms, double number);
};

const std::map<std::string, Series> kSeries{
    {"geometric",
     {"RATIO",
      [](int64_t terms, double ratio) { return at::pow(at::full({}, ratio, at::kDouble), at::arange(terms)); }}},
    {"diffusion", {"TIME", [](int64_t terms, double time) { return diffusion_coefficients(terms, time); }}},
    {"regularised",
     {"POWER", [](int64_t terms, double power) { return regularised_laplacian_coefficients(terms, power); }}}};

}  // namespace

void FunctionArguments::add_to(CLI::App& command) {
  command
      .add_option("--f", function_,
                  "function of hops: 1,0.5,0.25, or geometric:RATIO, diffusion:TIME, regularised:POWER, with --terms")
      ->capture_default_str();
  command.add_option("--terms", terms_, "terms of f")->capture_default_str()->check(whole_number(1, 10000));
}

std::string FunctionArguments::description() const {
  return function_ + (function_.find(':') == std::string::npos ? "" : ", " + std::to_string(terms_) + " terms");
}

at::Tensor FunctionArguments::make() const {
  const at::Tensor f = coefficients();
  // Masks are made in float32, some of them of sums of products of coefficients.
  const at::Tensor most = f.abs().amax().square() * static_cast<double>(f.size(0));
  if (!most.to(at::kFloat).isfinite().item<bool>()) {
    throw UsageError("--f: '" + function_ + "' with --terms " + std::to_string(terms_) +
                     " has coefficients whose products are beyond the range of float32");
  }
  return f;
}

at::Tensor FunctionArguments::coefficients() const {
  const size_t colon = function_.find(':');
  const std::string name = function_.substr(0, colon);
  const auto series = kSeries.find(name);
  if (colon == std::string::npos && series == kSeries.end()) return at::tensor(parse_numbers(function_), at::kDouble);
  if (series == kSeries.end()) {
    throw UsageError("--f: unknown function '" + name + "'" + hint(name, {"geometric", "diffusion", "regularised"}) +
                     " (there are geometric, diffusion and regularised)");
  }
  if (colon == std::string::npos || colon + 1 == function_.size()) {
    throw UsageError("--f: " + name + " takes a number, as in --f " + name + ":" + series->second.argument + ", got '" +
                     function_ + "'");
  }
  try {
    return series->second.make(terms_, parse_coefficient(function_.substr(colon + 1)));
  } catch (const c10::Error& error) {
    throw UsageError("--f: " + function_ + ": " + error.what_without_backtrace());
  }
}

}  // namespace topomask::apps
