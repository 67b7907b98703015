#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <sstream>

#include "core/recycled.h"
#include "topomask/attention.h"
#include "torture/case_parts.h"
#include "torture/refusal.h"

namespace topomask::torture {
namespace {

/// q, k and v of a case.
struct Inputs3 {
  DrawnInput q, k, v;
  bool k_is_q = false;
  std::vector<int64_t> leading;
  int64_t head_dim = 0, value_dim = 0;
};

/// Widths that keep slices·N·m·d at a size that any route finishes quickly; `features` per coordinate of q at most.
Inputs3 draw_inputs(Setting& setting, double gain_qk, std::string& what) {
  Draw& draw = setting.draw;
  constexpr int64_t kWidths[] = {1, 3, 16, 17, 64, 130};
  Inputs3 in;
  in.leading = draw_leading(draw, setting.mask->heads());
  int64_t key = draw.below("d_k", 6), value = draw.below("d", 6), slices = 1;
  for (const int64_t size : in.leading) slices *= size;
  while (slices * setting.mask->size() * kWidths[key] * kWidths[value] > 1'500'000 && key + value > 0) {
    if (key >= value)
      --key;
    else
      --value;
  }
  in.head_dim = kWidths[key];
  in.value_dim = kWidths[value];
  const double gain_v = setting.dtype == at::kHalf ? 1.0 : draw.pick("gain_v", {1.0, 1.0, 1.0, 1e-5, 1e3});
  const int64_t n = setting.mask->size();
  in.q = draw_input(draw, "q", in.leading, n, in.head_dim, setting.dtype, gain_qk);
  in.k = draw_input(draw, "k", in.leading, n, in.head_dim, setting.dtype, gain_qk);
  in.v = draw_input(draw, "v", in.leading, n, in.value_dim, setting.dtype, gain_v);
  in.k_is_q = draw.chance("k_is_q", 6);
  std::ostringstream text;
  text << ", leading " << shape_text(in.leading) << ", d_k " << in.head_dim << ", d " << in.value_dim << ", q "
       << in.q.layout << ", k " << (in.k_is_q ? "is q" : in.k.layout) << ", v " << in.v.layout << ", gains " << gain_qk
       << " " << gain_v;
  const auto mark = [&](const DrawnInput& x) { return x.leaf.requires_grad() ? x.name : std::string(); };
  text << ", grad of " << mark(in.q) << (in.k_is_q ? "" : mark(in.k)) << mark(in.v);
  for (const size_t i : learnt(setting.drawn)) text << " " << setting.drawn.names[i];
  what += text.str();
  return in;
}

/// Large results reuse memory of freed ones: leaves NaN there.
void poison_kept_memory(const at::Tensor& x) {
  if (!x.is_cpu() || !x.is_floating_point()) return;
  for (const at::ScalarType type : {x.scalar_type(), at::kFloat}) {
    const at::Tensor first = recycled_empty(x.sizes(), at::dtype(type)),
                     second = recycled_empty(x.sizes(), at::dtype(type));
    first.fill_(std::numeric_limits<double>::quiet_NaN());
    second.fill_(std::numeric_limits<double>::quiet_NaN());
  }
}

/// Values change in place between two calls: what is kept from the first must not be used in the second.
template <class Call>
void use_and_change(Setting& setting, const Call& call, std::string& what) {
  const bool can_change = setting.drawn.follows && setting.device.is_cpu();
  const int64_t kind = setting.draw.pick<int64_t>("before", {0, 0, 0, 1, 2, 3});
  if (kind == 0) return;
  const at::NoGradGuard no_grad;
  call();
  what += ", called before";
  if (kind == 1 || !can_change) return;
  for (const at::Tensor& leaf : setting.drawn.leaves) {
    if (leaf.numel() == 0) continue;
    if (kind == 2) {
      leaf.mul_(0.75);
    } else {
      // As a fused optimiser writes: leaf −= 1·(leaf/4).
      const at::Tensor gradient = leaf.detach() * 0.25;
      at::_fused_sgd_({leaf}, {gradient}, {}, 0.0, 0.0, 1.0, 0.0, false, false, true);
    }
  }
  what += kind == 2 ? ", parameters changed in place" : ", parameters changed by a fused step";
}

enum class Mode { grad, no_grad, inference };

template <class Call>
at::Tensor in_mode(Mode mode, const Call& call) {
  if (mode == Mode::inference) {
    const c10::InferenceMode guard;
    return call();
  }
  const at::AutoGradMode guard(mode == Mode::grad);
  return call();
}

/// The reference's inputs: leaves in double and the views of them.
struct Doubles {
  at::Tensor leaf_q, leaf_k, leaf_v, q, k, v;

  explicit Doubles(const Inputs3& in) {
    const auto wide = [](const DrawnInput& x) {
      return x.leaf.detach().to(at::kDouble).requires_grad_(x.leaf.requires_grad());
    };
    leaf_q = wide(in.q), leaf_k = wide(in.k), leaf_v = wide(in.v);
    q = in.q.view(leaf_q), v = in.v.view(leaf_v);
    k = in.k_is_q ? q : in.k.view(leaf_k);
  }
};

/// Compares the output and all gradients. `scales`: the sizes of the gradients of q, k, v (after any feature map) and
/// M for a cotangent; `passed`: what of the reference lies between q or k and the output in their dtype.
template <class MakeScales>
void judge_output(const Setting& setting, Judge& judge, const Inputs3& in, const Doubles& wide, const at::Tensor& out,
                  const Expected& expected, Mode mode, const std::vector<at::Tensor>& passed,
                  const MakeScales& make_scales) {
  const double tol = setting.tolerance.total();
  judge.compare("out", at::where(expected.sound.to(out.device()), out.detach(), at::zeros_like(out)),
                expected.out.detach() * expected.sound, expected.scale * expected.sound, tol);
  judge.bound("out", out, expected.scale, expected.sound.logical_not());

  std::vector<at::Tensor> got_inputs, want_inputs;
  const std::vector<size_t> which = learnt(setting.drawn);
  for (const size_t i : which) got_inputs.push_back(setting.drawn.leaves[i]), want_inputs.push_back(setting.doubles[i]);
  struct Wanted {
    const DrawnInput* input;
    at::Tensor leaf;
  };
  std::vector<Wanted> wanted{{&in.q, wide.leaf_q}, {&in.v, wide.leaf_v}};
  if (!in.k_is_q) wanted.push_back({&in.k, wide.leaf_k});
  for (const Wanted& w : wanted) {
    if (w.leaf.requires_grad()) got_inputs.push_back(w.input->leaf), want_inputs.push_back(w.leaf);
  }
  const bool recorded = mode == Mode::grad && !got_inputs.empty();
  const bool anything = std::any_of(got_inputs.begin(), got_inputs.end(), [](const auto& x) { return x.numel() > 0; });
  judge.require(out.requires_grad() == recorded || (recorded && !anything),
                std::string("out.requires_grad() is ") + (out.requires_grad() ? "true" : "false"));
  if (!recorded || judge.failed()) return;

  const at::Tensor cotangent = (setting.draw.normal("cotangent", out.sizes()) * expected.sound).to(setting.dtype);
  const auto got = gradients_of(out, cotangent.to(setting.device), got_inputs);
  const at::Tensor g = cotangent.to(at::kDouble);
  // A row that is not sound may have gradients that are not numbers; its part is zero.
  const at::Tensor safe = at::where(expected.sound, expected.out, 0.0);
  const auto want = gradients_of(safe, g, want_inputs, /*keep=*/true);
  const Scales scales = make_scales(g);
  judge_parameters(setting, judge, {got.begin(), got.begin() + std::ssize(which)},
                   {want.begin(), want.begin() + std::ssize(which)}, scales.matrix);
  if (setting.dtype == at::kHalf) {
    std::vector<at::Tensor> held(want.begin() + std::ssize(which), want.end());
    for (const at::Tensor& x : passed) {
      if (x.requires_grad()) held.push_back(gradients_of(safe, g, {x}, /*keep=*/true)[0]);
    }
    if (!fit_half(held)) return judge.leave_out();
  }
  size_t next = which.size();
  for (const Wanted& w : wanted) {
    if (!w.leaf.requires_grad()) continue;
    const at::Tensor& size = w.input == &in.q ? scales.q : w.input == &in.k ? scales.k : scales.v;
    const at::Tensor spread = gradients_of(w.input->view(w.leaf), size, {w.leaf})[0];
    judge.compare("gradient of " + w.input->name, got[next], want[next], spread, tol);
    ++next;
  }
}

/// The size of the gradient of x from that of φ(x), by random signs; exact where φ acts on each coordinate alone.
at::Tensor through_features(const Draw& draw, const DrawnFeatures::Map& map, const DrawnFeatures& features,
                            const at::Tensor& x, const at::Tensor& size) {
  const at::Tensor leaf = x.detach().clone().requires_grad_();
  const at::Tensor phi = map(leaf);
  at::Tensor result = at::zeros_like(leaf);
  for (int probe = 0; probe < 3; ++probe) {
    const at::Tensor signs = signs_like(draw, "phi" + std::to_string(probe), size);
    result = at::maximum(result, gradients_of(phi, size * signs, {leaf}, /*keep=*/true)[0].abs());
  }
  if (!features.exponential) return result;
  // FAVOR+ mixes the coordinates: a few signs of a few features can cancel in one of them, not in all.
  result = result.amax(-1, true).expand_as(result);
  const at::Tensor plain = phi.detach();
  return result * (features.magnitude(leaf.detach(), plain) / plain.abs().clamp_min(1e-300)).amax(-1, true);
}

/// φ(x) of float16 is computed in float16, mostly from x/√d, and what is not a normal number there is rounded by an
/// absolute error: φ' at such an argument may be anything, that of relu's bend on the other side included. The size of
/// the gradient of x without these entries, which are not compared.
at::Tensor where_normal(const at::Tensor& size, const at::Tensor& x) {
  const double least = kLeastNormalHalf * std::sqrt(static_cast<double>(x.size(-1)));
  return size.masked_fill(x.detach().abs() < least, std::numeric_limits<double>::infinity());
}

Mode draw_mode(Draw& draw, std::string& what) {
  const Mode mode =
      draw.pick("mode", {Mode::grad, Mode::grad, Mode::grad, Mode::grad, Mode::grad, Mode::no_grad, Mode::inference});
  if (mode == Mode::no_grad) what += ", no-grad mode";
  if (mode == Mode::inference) what += ", inference mode";
  return mode;
}

double draw_eps(Draw& draw, std::string& what) {
  const double eps = draw.pick("eps", {1e-6, 1e-6, 1e-6, 1e-3, 1e-12, 1.0});
  std::ostringstream text;
  text << ", eps " << eps;
  what += text.str();
  return eps;
}

/// A route that the mask does not have is refused in words.
template <class Call>
void judge_refusal(Judge& judge, const std::string& name, const Call& call) {
  try {
    call();
    judge.require(false, "route " + name + ": not refused, though counts() says that the mask lacks it");
  } catch (const c10::Error&) {
  }
}

/// An empty result has the right shape and gradients of zero.
bool judged_empty(Judge& judge, const at::Tensor& out, const at::Tensor& v) {
  judge.require(out.sizes() == v.sizes(), "out: wrong shape");
  judge.require(out.scalar_type() == v.scalar_type() && out.device() == v.device(), "out: wrong dtype or device");
  return out.numel() == 0;
}

/// Whether the fused route has kernels for any width of the case.
bool offers_fused(const Setting& setting) {
  return setting.device.is_cpu() && setting.dtype != at::kHalf && setting.mask->tiles().has_value();
}

}  // namespace

std::string run_attention(Setting& setting, Judge& judge, std::string& what) {
  Draw& draw = setting.draw;
  const MaskCounts counts = setting.mask->counts();
  std::vector<Route> routes{Route::automatic, Route::dense, Route::operator_, Route::strips, Route::automatic};
  if (counts.sparse_entries) routes.insert(routes.end(), {Route::sparse, Route::sparse});
  if (counts.factor_entries) routes.insert(routes.end(), {Route::features, Route::features});
  if (offers_fused(setting)) routes.insert(routes.end(), {Route::fused, Route::fused});
  AttentionOptions options;
  options.route = routes[draw.below("route", std::ssize(routes))];
  const std::string operation = std::string("attention, route ") + to_string(options.route);
  what = operation + what;
  options.eps = draw_eps(draw, what);
  double gain_qk = draw.pick("gain", {1.0, 1.0, 1.0, 1e-3, 20.0});
  if (setting.dtype == at::kHalf) gain_qk = 1.0;
  Inputs3 in = draw_inputs(setting, gain_qk, what);
  const DrawnFeatures features = draw_features(draw, in.head_dim);
  // Exponentials get inputs that do not overflow.
  if (features.exponential && gain_qk > 1) {
    const at::NoGradGuard no_grad;
    in.q.leaf.mul_(1 / gain_qk);
    in.k.leaf.mul_(1 / gain_qk);
  }
  options.features = features.library;
  what += ", features " + features.what;
  const Mode mode = draw_mode(draw, what);

  const at::Tensor q = in.q.there(setting.device), k = in.k_is_q ? q : in.k.there(setting.device),
                   v = in.v.there(setting.device);
  const auto call = [&] {
    return with_refusals(options.route, [&] { return attention(q, k, v, setting.mask, options); });
  };
  use_and_change(setting, call, what);
  poison_kept_memory(v);
  poison_kept_memory(q);
  const at::Tensor out = in_mode(mode, call);
  if (judged_empty(judge, out, v)) return operation;
  std::ostringstream table;
  table << explain(q, k, v, setting.mask, options);
  for (const auto& [route, offered] : {std::pair(Route::sparse, counts.sparse_entries.has_value()),
                                       std::pair(Route::features, counts.factor_entries.has_value())}) {
    AttentionOptions other = options;
    other.route = route;
    if (!offered) judge_refusal(judge, to_string(route), [&] { attention(q, k, v, setting.mask, other); });
  }

  make_reference(setting);
  const Doubles wide(in);
  KernelProblem problem{features.queries(wide.q), features.keys(wide.k), wide.v, {}, {}, setting.value, options.eps};
  problem.size_q = features.magnitude(wide.q.detach(), problem.phi_q.detach());
  problem.size_k = features.magnitude(wide.k.detach(), problem.phi_k.detach());
  if (setting.dtype == at::kHalf) {  // in units of the relative error that sizes are multiplied by
    problem.size_q = problem.size_q + kSubnormalHalfError / setting.tolerance.rounding;
    problem.size_k = problem.size_k + kSubnormalHalfError / setting.tolerance.rounding;
  }
  const Expected expected = expected_attention(problem, setting.tolerance);
  judge_output(setting, judge, in, wide, out, expected, mode, {problem.phi_q, problem.phi_k}, [&](const at::Tensor& g) {
    Scales scales = attention_scales(problem, expected, g);
    scales.q = through_features(draw, features.queries, features, wide.q, scales.q);
    scales.k = through_features(draw, features.keys, features, wide.k, scales.k);
    if (setting.dtype == at::kHalf)
      scales.q = where_normal(scales.q, wide.q), scales.k = where_normal(scales.k, wide.k);
    if (in.k_is_q) scales.q = scales.q + scales.k;
    return scales;
  });
  return operation;
}

std::string run_softmax(Setting& setting, Judge& judge, std::string& what, bool additive) {
  Draw& draw = setting.draw;
  std::vector<Route> routes{Route::automatic, Route::dense, Route::strips};
  if (!additive && setting.mask->counts().sparse_entries) routes.insert(routes.end(), {Route::sparse, Route::sparse});
  if (offers_fused(setting)) routes.insert(routes.end(), {Route::fused, Route::fused});
  SoftmaxOptions options;
  options.mask = additive ? SoftmaxMask::additive : SoftmaxMask::multiplicative;
  options.route = routes[draw.below("route", std::ssize(routes))];
  const std::string operation =
      std::string(additive ? "additive" : "multiplicative") + " softmax, route " + to_string(options.route);
  what = operation + what;
  options.eps = draw_eps(draw, what);
  const double gain = draw.pick("gain", {1.0, 1.0, 1e-3, 5.0});
  const Inputs3 in = draw_inputs(setting, gain, what);
  if (draw.chance("own_scale", 30)) {
    options.scale = draw.uniform("scale", 0.2, 1.0) / std::sqrt(static_cast<double>(in.head_dim));
    what += ", own scale";
  }
  const Mode mode = draw_mode(draw, what);
  const at::Tensor q = in.q.there(setting.device), k = in.k_is_q ? q : in.k.there(setting.device),
                   v = in.v.there(setting.device);
  const auto call = [&] {
    return with_refusals(options.route, [&] { return softmax_attention(q, k, v, setting.mask, options); });
  };
  use_and_change(setting, call, what);
  poison_kept_memory(v);
  const at::Tensor out = in_mode(mode, call);
  if (judged_empty(judge, out, v)) return operation;

  make_reference(setting);
  const Doubles wide(in);
  const double scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(in.head_dim)));
  const SoftmaxProblem problem{wide.q, wide.k, wide.v, setting.value, additive, scale, options.eps};
  const Expected expected = expected_softmax(problem, setting.tolerance);
  judge_output(setting, judge, in, wide, out, expected, mode, {}, [&](const at::Tensor& g) {
    Scales scales = softmax_scales(problem, expected, g);
    if (in.k_is_q) scales.q = scales.q + scales.k;
    return scales;
  });
  return operation;
}

}  // namespace topomask::torture
