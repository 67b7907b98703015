#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "topomask/export.h"
#include "topomask/run_config.h"

namespace TOPOMASK_API topomask {

// Options structs are read, written, overridden and explained through the `visit` that is defined next to each of them:
// a field is named once.

using OptionPointer = std::variant<bool*, int64_t*, uint64_t*, double*, std::string*, std::vector<double>*>;

struct OptionField {
  std::string key;  ///< dotted, such as model.width
  OptionPointer value;
  std::string help;
};

/// A visitor that lists the fields, those of structs inside structs too.
class OptionLister {
 public:
  template <class T>
  void operator()(const char* key, T& value, const char* help) {
    if constexpr (std::is_constructible_v<OptionPointer, T*>) {
      fields.push_back({prefix_ + key, &value, help});
    } else {
      const std::string outer = prefix_;
      prefix_ += std::string(key) + ".";
      visit(*this, value);
      prefix_ = outer;
    }
  }

  std::vector<OptionField> fields;

 private:
  std::string prefix_;
};

/// The fields of an options struct, in the order of its `visit`. They point into `options`.
template <class Options>
std::vector<OptionField> option_fields(Options& options) {
  OptionLister lister;
  visit(lister, options);
  return std::move(lister.fields);
}

/// Sets the fields that a JSON object (comments are allowed) names; the others stay. An unknown key is refused with the
/// nearest known one, and a value of another type with its key. `origin` starts every error text: "FILE: ".
void read_options(const std::vector<OptionField>& fields, const std::string& json, const std::string& origin);

/// Sets one field from a string, as a command line has it: 192, true, 0.1,0.2, [0.1, 0.2], a name.
void set_option(const std::vector<OptionField>& fields, const std::string& key, const std::string& text);

/// The fields as a JSON object with objects inside for dotted keys, indented.
std::string write_options(const std::vector<OptionField>& fields);

std::string option_text(const OptionField& field);  ///< its value as JSON
const char* option_type(const OptionField& field);  ///< "integer", "number", …

/// The configuration of a run from a JSON file; keys it does not name keep their defaults. "preset" inside "model" is
/// the name of a size, which the other keys of "model" change. Values out of range are refused by RunConfig::check, in
/// `override_config` too; what depends on several keys, or on the data, is checked when the model is made.
RunConfig read_config(const std::string& path);
RunConfig parse_config(const std::string& json, const std::string& origin);
std::string to_json(const RunConfig& config);

/// `model.width` = `192`; `model.preset` sets the sizes.
void override_config(RunConfig& config, const std::string& key, const std::string& value);
/// Several in their order; ranges that depend on each other are checked after the last.
void override_config(RunConfig& config, const std::vector<std::pair<std::string, std::string>>& settings);

}  // namespace topomask
