#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "core/checks.h"
#include "masks/forest/distance_rule.h"

namespace topomask {
namespace {

using Rule = DistanceFunction::Rule;
using Term = ExponentialPolynomial::Term;

std::shared_ptr<const Rule> exact_rule(ExponentialPolynomial exact) {
  return std::make_shared<Rule>(Rule{.kind = Rule::Kind::exact, .exact = exact, .function = exact});
}

void check_parameter(const char* argument, const at::Tensor& value) {
  TORCH_CHECK(value.defined() && is_real(value.scalar_type()) && value.dim() <= 1 && value.numel() >= 1 &&
                  value.device().is_cpu(),
              "DistanceFunction::exponential: ", argument, " must be float32 or float64, [] or [H], on cpu, got ",
              describe(value));
  check_finite("DistanceFunction::exponential", argument, value);
}

/// f∘g of two functions without parameters, by what they have in common: exact, smooth, or integers only.
template <class Combine>
std::shared_ptr<const Rule> combined(const char* op, const Rule& f, const Rule& g, const Combine& combine) {
  TORCH_CHECK(!f.learnable() && !g.learnable(), "DistanceFunction::", op,
              ": both functions must be without parameters, got a ",
              (f.learnable() ? f : g).kind == Rule::Kind::table ? "table" : "learnable exponential");
  if (f.exact && g.exact) return exact_rule(combine(*f.exact, *g.exact));
  Rule rule{.kind = Rule::Kind::smooth};
  rule.function = [f = f.function, g = g.function, combine](double x) { return combine(f(x), g(x)); };
  rule.tolerance = f.exact ? g.tolerance : g.exact ? f.tolerance : std::min(f.tolerance, g.tolerance);
  if (f.kind == Rule::Kind::on_integers || g.kind == Rule::Kind::on_integers) rule.kind = Rule::Kind::on_integers;
  return std::make_shared<Rule>(std::move(rule));
}

}  // namespace

DistanceFunction::DistanceFunction(std::shared_ptr<const Rule> rule) : rule_(std::move(rule)) {}

DistanceFunction DistanceFunction::exponential(double a, double b) {
  TORCH_CHECK(std::isfinite(a) && std::isfinite(b), "DistanceFunction::exponential: a and b must be finite, got ", a,
              " and ", b);
  TORCH_CHECK(std::isfinite(std::exp(b)), "DistanceFunction::exponential: b must have a finite exp(b), got ", b);
  return DistanceFunction(exact_rule(ExponentialPolynomial({Term{a, {std::exp(b)}}})));
}

DistanceFunction DistanceFunction::exponential(const at::Tensor& a, const at::Tensor& b) {
  check_parameter("a", a);
  if (b.defined()) {
    check_parameter("b", b);
    TORCH_CHECK(b.scalar_type() == a.scalar_type(), "DistanceFunction::exponential: b must be ", a.scalar_type(),
                " as a is, got ", describe(b));
    TORCH_CHECK(a.numel() == 1 || b.numel() == 1 || a.numel() == b.numel(),
                "DistanceFunction::exponential: b must have one value or the ", a.numel(), " of a, got ", describe(b));
  }
  return DistanceFunction(std::make_shared<Rule>(Rule{.kind = Rule::Kind::exponential, .a = a, .b = b}));
}

DistanceFunction DistanceFunction::table(const at::Tensor& f) {
  TORCH_CHECK(f.defined() && is_real(f.scalar_type()) && (f.dim() == 1 || f.dim() == 2) && f.device().is_cpu() &&
                  (f.dim() == 1 || f.size(0) >= 1),
              "DistanceFunction::table: f must be float32 or float64, [K] or [H, K], on cpu, got ", describe(f));
  TORCH_CHECK(f.size(-1) >= 1, "DistanceFunction::table: f must have at least one value, got ", describe(f));
  check_finite("DistanceFunction::table", "f", f);
  return DistanceFunction(std::make_shared<Rule>(Rule{.kind = Rule::Kind::table, .f = f}));
}

DistanceFunction DistanceFunction::on_integers(Function f) {
  TORCH_CHECK(f, "DistanceFunction::on_integers: f must be a function, got none");
  return DistanceFunction(std::make_shared<Rule>(Rule{.kind = Rule::Kind::on_integers, .function = std::move(f)}));
}

DistanceFunction DistanceFunction::polynomial(std::vector<double> coefficients) {
  TORCH_CHECK(!coefficients.empty(), "DistanceFunction::polynomial: coefficients must not be empty, got none");
  for (const double c : coefficients) {
    TORCH_CHECK(std::isfinite(c), "DistanceFunction::polynomial: coefficients must be finite, got ", c);
  }
  return DistanceFunction(exact_rule(ExponentialPolynomial({Term{0.0, {coefficients.begin(), coefficients.end()}}})));
}

DistanceFunction DistanceFunction::cosine(double omega, double phase) {
  TORCH_CHECK(std::isfinite(omega) && std::isfinite(phase),
              "DistanceFunction::cosine: omega and phase must be finite, got ", omega, " and ", phase);
  return DistanceFunction(exact_rule(ExponentialPolynomial({Term{{0.0, omega}, {std::polar(1.0, phase)}}})));
}

DistanceFunction DistanceFunction::smooth(Function f, double tolerance) {
  TORCH_CHECK(f, "DistanceFunction::smooth: f must be a function, got none");
  TORCH_CHECK(tolerance > 0 && tolerance < 1, "DistanceFunction::smooth: tolerance must be in (0, 1), got ", tolerance);
  return DistanceFunction(
      std::make_shared<Rule>(Rule{.kind = Rule::Kind::smooth, .function = std::move(f), .tolerance = tolerance}));
}

DistanceFunction DistanceFunction::product(const DistanceFunction& f, const DistanceFunction& g) {
  return DistanceFunction(combined("product", f.rule(), g.rule(), [](const auto& a, const auto& b) { return a * b; }));
}

DistanceFunction DistanceFunction::sum(const DistanceFunction& f, const DistanceFunction& g) {
  return DistanceFunction(combined("sum", f.rule(), g.rule(), [](const auto& a, const auto& b) { return a + b; }));
}

double DistanceFunction::operator()(double distance) const {
  TORCH_CHECK(!rule_->learnable(), "DistanceFunction: the function must be without parameters to be called, got a ",
              rule_->kind == Rule::Kind::table ? "table" : "learnable exponential");
  TORCH_CHECK(!std::isnan(distance), "DistanceFunction: distance must be a number, got nan");
  return rule_->function(distance);
}

}  // namespace topomask
