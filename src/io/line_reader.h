#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "core/internal_api.h"
#include "io/input_file.h"

namespace TOPOMASK_INTERNAL_API topomask {
namespace io {

/// The lines of a text, from any source of bytes, through one window of fixed size: a line that does not fit it is an
/// error. A line ends with "\n" or "\r\n"; the last one may end with the text. Every error names file and line.
class LineReader {
 public:
  /// Fills `out` as far as the content goes; fewer than `bytes` only at the end.
  using Source = std::function<size_t(char* out, size_t bytes)>;

  LineReader(Origin origin, Source source);
  explicit LineReader(Origin origin);  ///< a file, plain or gzip
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  bool next();                                     ///< to the next line; false at the end
  std::string_view line() const { return line_; }  ///< without its end; valid until next()
  int64_t number() const { return number_; }       ///< of the line, 1-based
  const Origin& origin() const { return origin_; }

  template <typename... Args>
  [[noreturn]] void fail_here(const Args&... args) const {
    C10_THROW_ERROR(Error, c10::str(origin_.op, ": ", origin_.path, ":", number_, ": ", args...));
  }

 private:
  void refill();

  Origin origin_;
  Source source_;
  std::vector<char> window_;
  const char* at_;
  const char* end_;
  std::string_view line_;
  int64_t number_ = 0;
  bool exhausted_ = false;
};

/// The numbers of a line, between commas, blanks or both.
class LineNumbers {
 public:
  explicit LineNumbers(const LineReader& reader)
      : reader_(reader), at_(reader.line().data()), end_(at_ + reader.line().size()) {
    skip_blanks();
  }

  bool done() const { return at_ == end_; }
  /// `what` is what the error says was expected: "a node id".
  int64_t integer(const char* what);
  float number(const char* what);  ///< finite
  void end() const;                ///< an error unless done()

 private:
  void skip_blanks() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\t')) ++at_;
  }
  template <class Number>
  Number parse(const char* what);
  [[noreturn]] void refuse(const std::string& what) const;

  const LineReader& reader_;
  const char* at_;
  const char* end_;
};

}  // namespace io
}  // namespace topomask
