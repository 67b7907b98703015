#include "torture/shrink.h"

#include <chrono>

namespace topomask::torture {
namespace {

/// What went wrong, without numbers: an exception, the output, a gradient of an input, one of a parameter, …
std::string kind(const Outcome& outcome) {
  const std::string name = outcome.failure.substr(0, outcome.failure.find_first_of("[:"));
  const bool gradient = name.starts_with("gradient of "), input = name.size() == std::string("gradient of q").size();
  return gradient && !input ? "gradient of a parameter" : name;
}

}  // namespace

Shrunk shrink(uint64_t seed, const Draw::Fixed& fixed, const Outcome& failed, at::Device device, double seconds) {
  const auto start = std::chrono::steady_clock::now();
  const auto time_left = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < seconds;
  };
  Shrunk best{fixed, failed};
  for (bool lowered = true; lowered && time_left();) {
    lowered = false;
    Draw current(seed, best.fixed);
    run_case(current, device);  // for the choices that the case has now
    for (const Draw::Choice& choice : current.taken()) {
      if (choice.value == 0 || !time_left()) continue;
      for (const int64_t value : {int64_t{0}, choice.value / 2, choice.value - 1}) {
        if (value >= choice.value) continue;
        Draw::Fixed tried = best.fixed;
        tried[choice.name] = value;
        Draw draw(seed, tried);
        const Outcome outcome = run_case(draw, device);
        ++best.tries;
        if (outcome.failure.empty() || kind(outcome) != kind(failed)) continue;
        best.fixed = std::move(tried);
        best.outcome = outcome;
        lowered = true;
        break;
      }
    }
  }
  return best;
}

std::string reproducer(uint64_t seed, const Draw::Fixed& fixed, at::Device device) {
  std::string text = "topomask_torture --case " + std::to_string(seed);
  if (!device.is_cpu()) text += " --device cuda";
  for (const auto& [name, value] : fixed) text += " " + name + "=" + std::to_string(value);
  return text;
}

}  // namespace topomask::torture
