#include <c10/util/Exception.h>
#include <nlohmann/json.hpp>

#include <charconv>

#include "config/json_text.h"
#include "config/nearest_key.h"
#include "topomask/config.h"

namespace topomask {
namespace {

using Json = nlohmann::ordered_json;

/// "model.width must be an integer, got "wide"", after the origin.
[[noreturn]] void refuse(const std::string& origin, const OptionField& field, const std::string& got) {
  C10_THROW_ERROR(Error, c10::str(origin, field.key, " must be ", option_type(field), ", got ", got));
}

[[noreturn]] void refuse_unknown(const std::string& key, const std::vector<std::string>& known,
                                 const std::string& origin) {
  const auto nearest = nearest_key(key, known);
  C10_THROW_ERROR(
      Error, c10::str(origin, "unknown key '", key, "'", nearest ? c10::str("; did you mean '", *nearest, "'?") : ""));
}

const OptionField& find_field(const std::vector<OptionField>& fields, const std::string& key,
                              const std::string& origin) {
  std::vector<std::string> known;
  for (const OptionField& field : fields) {
    if (field.key == key) return field;
    known.push_back(field.key);
  }
  refuse_unknown(key, known, origin);
}

/// The keys whose values are objects: model, train, …
std::vector<std::string> section_keys(const std::vector<OptionField>& fields) {
  std::vector<std::string> sections;
  for (const OptionField& field : fields) {
    for (size_t dot = field.key.find('.'); dot != std::string::npos; dot = field.key.find('.', dot + 1)) {
      const std::string section = field.key.substr(0, dot);
      if (std::find(sections.begin(), sections.end(), section) == sections.end()) sections.push_back(section);
    }
  }
  return sections;
}

/// Whether the number is one of T, whole and in range.
template <class T>
bool read_integer(const Json& value, T& out) {
  if (value.is_number_float()) {  // 1e5
    const double number = value.get<double>();
    if (std::abs(number) > 9e15 || number != std::floor(number) || (std::is_unsigned_v<T> && number < 0)) return false;
    out = static_cast<T>(number);
    return true;
  }
  if (!value.is_number_integer()) return false;
  if (std::is_unsigned_v<T> ? !value.is_number_unsigned() && value.get<int64_t>() < 0
                            : value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX}) {
    return false;
  }
  out = value.get<T>();
  return true;
}

bool assign(const OptionPointer& target, const Json& value) {
  const auto store = [&](auto* pointer) {
    using T = std::remove_pointer_t<decltype(pointer)>;
    if constexpr (std::is_same_v<T, bool>) {
      return value.is_boolean() && (*pointer = value.get<bool>(), true);
    } else if constexpr (std::is_integral_v<T>) {
      return read_integer(value, *pointer);
    } else if constexpr (std::is_same_v<T, double>) {
      return value.is_number() && (*pointer = value.get<double>(), true);
    } else if constexpr (std::is_same_v<T, std::string>) {
      return value.is_string() && (*pointer = value.get<std::string>(), true);
    } else {
      if (!value.is_array() || !std::all_of(value.begin(), value.end(), [](const Json& e) { return e.is_number(); })) {
        return false;
      }
      *pointer = value.get<T>();
      return true;
    }
  };
  return std::visit(store, target);
}

void read_object(const std::vector<OptionField>& fields, const Json& object, const std::string& prefix,
                 const std::string& origin) {
  for (const auto& [name, value] : object.items()) {
    const std::string key = prefix + name;
    const bool section = std::any_of(fields.begin(), fields.end(),
                                     [&](const OptionField& field) { return field.key.starts_with(key + "."); });
    if (section) {
      TORCH_CHECK(value.is_object(), origin, key, " must be an object, got ", value.dump());
      read_object(fields, value, key + ".", origin);
      continue;
    }
    const std::vector<std::string> sections = section_keys(fields);
    if (value.is_object() && nearest_key(key, sections)) refuse_unknown(key, sections, origin);
    const OptionField& field = find_field(fields, key, origin);
    if (!assign(field.value, value)) refuse(origin, field, value.dump());
  }
}

/// JSON strings are UTF-8: a configuration with other bytes could be used but not written.
bool is_utf8(const std::string& text) {
  try {
    Json(text).dump();
    return true;
  } catch (const Json::type_error&) {
    return false;
  }
}

/// Converts a string of the command line to JSON of the field's type, if it has that form.
Json from_text(const OptionField& field, const std::string& text) {
  if (std::holds_alternative<std::string*>(field.value)) return text;
  if (std::holds_alternative<bool*>(field.value)) {
    if (text == "on" || text == "1" || text == "yes") return true;
    if (text == "off" || text == "0" || text == "no") return false;
  }
  if (std::holds_alternative<double*>(field.value)) {  // .5, which JSON would not take
    double number = 0;
    const char* end = text.data() + text.size();
    const auto [stopped, error] = std::from_chars(text.data(), end, number);
    if (error == std::errc() && stopped == end && std::isfinite(number)) return number;
  }
  const bool list = std::holds_alternative<std::vector<double>*>(field.value);
  Json value = Json::parse(list && !text.starts_with('[') ? "[" + text + "]" : text, nullptr, false);
  return value.is_discarded() ? Json(text) : value;
}

Json value_of(const OptionField& field) {
  return std::visit([](const auto* pointer) { return Json(*pointer); }, field.value);
}

}  // namespace

void read_options(const std::vector<OptionField>& fields, const std::string& json, const std::string& origin) {
  const Json object = parse_json(json, origin);
  TORCH_CHECK(object.is_object(), origin, "expected an object in braces, got ", object.type_name());
  read_object(fields, object, "", origin);
}

void set_option(const std::vector<OptionField>& fields, const std::string& key, const std::string& text) {
  const OptionField& field = find_field(fields, key, "");
  TORCH_CHECK(is_utf8(text), field.key, " must be UTF-8, got bytes that are not");
  if (!assign(field.value, from_text(field, text))) refuse("", field, "'" + text + "'");
}

std::string write_options(const std::vector<OptionField>& fields) {
  Json object = Json::object();
  for (const OptionField& field : fields) {
    Json* place = &object;
    size_t start = 0;
    for (size_t dot = 0; (dot = field.key.find('.', start)) != std::string::npos; start = dot + 1) {
      place = &(*place)[field.key.substr(start, dot - start)];
    }
    (*place)[field.key.substr(start)] = value_of(field);
  }
  return object.dump(2) + "\n";
}

std::string option_text(const OptionField& field) {
  return value_of(field).dump();
}

const char* option_type(const OptionField& field) {
  constexpr const char* kNames[] = {"true or false", "an integer", "an integer that is not negative",
                                    "a number",      "a string",   "a list of numbers"};
  return kNames[field.value.index()];
}

}  // namespace topomask
