#include "data/graphs/mesh_file.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "io/quoted.h"

namespace topomask {
namespace {

/// The words of a line, one after another.
class LineWords {
 public:
  explicit LineWords(const io::LineReader& reader) : LineWords(reader, reader.line()) {}
  LineWords(const io::LineReader& reader, std::string_view line) : reader_(reader), rest_(line) {
    if (const size_t comment = rest_.find('#'); comment != std::string_view::npos) rest_ = rest_.substr(0, comment);
  }

  /// Empty at the end of the line.
  std::string_view next() {
    const size_t first = rest_.find_first_not_of(" \t\r");
    rest_.remove_prefix(std::min(first, rest_.size()));
    const std::string_view word = rest_.substr(0, rest_.find_first_of(" \t\r"));
    rest_.remove_prefix(word.size());
    return word;
  }

  template <class Number>
  Number number(const char* what) {
    return parse<Number>(next(), what);
  }

  /// The whole word is the number.
  template <class Number>
  Number parse(std::string_view word, const char* what) const {
    Number value{};
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    bool good = error == std::errc() && end == word.data() + word.size();
    if constexpr (std::is_floating_point_v<Number>) good = good && std::isfinite(value);
    if (!good) reader_.fail_here("expected ", what, ", got ", io::quoted(word));
    return value;
  }

 private:
  const io::LineReader& reader_;
  std::string_view rest_;
};

void add_vertex(const io::LineReader& reader, LineWords& words, SurfaceMesh& mesh) {
  constexpr int64_t kMostVertices = std::numeric_limits<int32_t>::max() / 3;
  if (mesh.vertices() >= kMostVertices) reader.fail_here("more than ", kMostVertices, " vertices");
  for (int axis = 0; axis < 3; ++axis) {
    const std::string_view word = words.next();
    const auto value = words.parse<double>(word, "a coordinate");  // one below the range of float32 becomes 0
    if (std::abs(value) > double{std::numeric_limits<float>::max()}) {
      reader.fail_here("expected a coordinate in the range of float32, got ", io::quoted(word));
    }
    mesh.places.push_back(static_cast<float>(value));
  }
}

/// Vertices are numbered from 0 here. Nothing where there are fewer than three.
void add_polygon(const std::vector<int32_t>& polygon, SurfaceMesh& mesh) {
  for (size_t i = 1; i + 1 < polygon.size(); ++i) {
    mesh.corners.insert(mesh.corners.end(), {polygon[0], polygon[i], polygon[i + 1]});
  }
}

/// The next line with a word on it; false at the end.
bool next_words(io::LineReader& reader, std::string_view& first, std::optional<LineWords>& words) {
  while (reader.next()) {
    words.emplace(reader);
    first = words->next();
    if (!first.empty()) return true;
  }
  return false;
}

/// The line, with those after it that backslashes at the ends of lines make a part of it; `joined` then holds it.
std::string_view whole_line(io::LineReader& reader, std::string& joined) {
  const auto goes_on = [&] {
    return reader.line().ends_with('\\') && reader.line().find('#') == std::string_view::npos;
  };
  if (!goes_on()) return reader.line();
  joined.clear();
  bool more = true;
  while (more) {
    more = goes_on();
    joined += reader.line();
    if (joined.size() > io::kReadBuffer) reader.fail_here("a line must be shorter than ", io::kReadBuffer, " bytes");
    if (!more) break;
    joined.back() = ' ';  // in place of the backslash
    more = reader.next();
  }
  return joined;
}

/// "OFF", which may follow ST, C and N: what vertices have after their places. Empty where a word starts otherwise.
std::string_view off_header(std::string_view word) {
  std::string_view rest = word;
  for (const std::string_view part : {"ST", "C", "N"}) {
    if (rest.starts_with(part)) rest.remove_prefix(part.size());
  }
  return rest.starts_with("OFF") ? word.substr(0, word.size() - rest.size() + 3) : std::string_view{};
}

}  // namespace

SurfaceMesh read_obj(io::LineReader& reader) {
  SurfaceMesh mesh;
  std::vector<int32_t> polygon;
  std::string joined;
  int64_t largest = -1, largest_line = 0;  // faces may stand before the vertices they name
  while (reader.next()) {
    LineWords words(reader, whole_line(reader, joined));
    const std::string_view kind = words.next();
    if (kind == "v") add_vertex(reader, words, mesh);
    if (kind != "f") continue;
    polygon.clear();
    for (std::string_view word = words.next(); !word.empty(); word = words.next()) {
      const int64_t number = words.parse<int32_t>(word.substr(0, word.find('/')), "the number of a vertex");
      const int64_t vertex = number < 0 ? mesh.vertices() + number : number - 1;
      if (vertex < 0) reader.fail_here("vertices are numbered from 1, or from -1 backwards, got ", number);
      if (vertex > largest) {
        largest = vertex;
        largest_line = reader.number();
      }
      polygon.push_back(static_cast<int32_t>(vertex));
    }
    add_polygon(polygon, mesh);
  }
  if (largest >= mesh.vertices()) {
    io::fail(reader.origin(), "the face on line ", largest_line, " names vertex ", largest + 1, ", there are ",
             mesh.vertices());
  }
  return mesh;
}

SurfaceMesh read_off(io::LineReader& reader) {
  SurfaceMesh mesh;
  std::string_view first;
  std::optional<LineWords> words;
  const std::string_view header = next_words(reader, first, words) ? off_header(first) : std::string_view{};
  if (header.empty()) {
    io::fail(reader.origin(), "expected OFF on the first line, with nothing but ST, C and N before it");
  }
  // Some files have the counts on the line of OFF, without a blank between.
  std::string_view count = first.substr(header.size());
  if (count.empty()) count = words->next();
  if (count.empty() && !next_words(reader, count, words)) io::fail(reader.origin(), "the counts are missing");
  const auto vertices = words->parse<int32_t>(count, "the number of vertices");
  const auto faces = words->number<int32_t>("the number of faces");
  if (vertices < 0 || faces < 0) reader.fail_here("counts must be >= 0, got ", vertices, " and ", faces);
  for (int32_t i = 0; i < vertices; ++i) {
    if (!next_words(reader, first, words)) io::fail(reader.origin(), "expected ", vertices, " vertices, got ", i);
    words.emplace(reader);  // the first word is a coordinate
    add_vertex(reader, *words, mesh);
  }
  std::vector<int32_t> polygon;
  for (int32_t i = 0; i < faces; ++i) {
    if (!next_words(reader, first, words)) io::fail(reader.origin(), "expected ", faces, " faces, got ", i);
    const auto corners = words->parse<int32_t>(first, "the number of a face's vertices");
    if (corners < 0) reader.fail_here("a face must have at least 0 vertices, got ", corners);
    polygon.clear();
    for (int32_t c = 0; c < corners; ++c) {  // what a line cannot hold ends with an error
      polygon.push_back(words->number<int32_t>("the number of a vertex"));
      if (polygon.back() < 0 || polygon.back() >= vertices) {
        reader.fail_here("vertices are numbered from 0 to ", vertices - 1, ", got ", polygon.back());
      }
    }
    add_polygon(polygon, mesh);
  }
  return mesh;
}

std::string mesh_extension(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  if (name.ends_with(".gz")) name.resize(name.size() - 3);
  for (const char* extension : {".obj", ".off"}) {
    if (name.ends_with(extension)) return extension;
  }
  return "";
}

SurfaceMesh read_mesh(const io::Origin& origin) {
  io::LineReader reader(origin);
  SurfaceMesh mesh = mesh_extension(origin.path) == ".off" ? read_off(reader) : read_obj(reader);
  if (mesh.vertices() == 0) io::fail(origin, "there is no vertex in it");
  return mesh;
}

}  // namespace topomask
