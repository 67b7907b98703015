#include "config/nearest_key.h"

#include "core/nearest_name.h"

namespace topomask {
namespace {

std::string name_in(const std::string& key) {
  return key.substr(key.rfind('.') + 1);
}

std::string section_of(const std::string& key) {
  const size_t dot = key.rfind('.');
  return dot == std::string::npos ? "" : key.substr(0, dot);
}

/// "lr" for learning_rate; nothing for a name of one word.
std::string initials(const std::string& name) {
  if (name.find('_') == std::string::npos) return "";
  std::string letters(1, name[0]);
  for (size_t i = 1; i < name.size(); ++i) {
    if (name[i - 1] == '_') letters += name[i];
  }
  return letters;
}

bool has_word(const std::string& name, const std::string& word) {
  return ("_" + name + "_").find("_" + word + "_") != std::string::npos;
}

/// The first key whose name fits, one of the same section before all others.
template <class Fits>
std::optional<std::string> first_that(const std::string& key, const std::vector<std::string>& known, const Fits& fits) {
  std::optional<std::string> elsewhere;
  for (const std::string& candidate : known) {
    if (!fits(name_in(candidate))) continue;
    if (section_of(candidate) == section_of(key)) return candidate;
    if (!elsewhere) elsewhere = candidate;
  }
  return elsewhere;
}

}  // namespace

std::optional<std::string> nearest_key(const std::string& key, const std::vector<std::string>& known) {
  const std::string name = name_in(key);
  const auto short_for = first_that(
      key, known, [&](const std::string& known_name) { return !name.empty() && initials(known_name) == name; });
  if (short_for) return short_for;
  if (auto nearest = nearest_name(key, known)) return nearest;
  return first_that(key, known,
                    [&](const std::string& known_name) { return name.size() >= 3 && has_word(known_name, name); });
}

}  // namespace topomask
