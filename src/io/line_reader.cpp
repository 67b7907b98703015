#include "io/line_reader.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>

#include "io/quoted.h"

namespace topomask::io {

LineReader::LineReader(Origin origin, Source source)
    : origin_(std::move(origin)), source_(std::move(source)), window_(kReadBuffer) {
  at_ = end_ = window_.data();
}

LineReader::LineReader(Origin origin)
    : LineReader(origin, [file = std::make_shared<ByteSource>(origin)](char* out, size_t bytes) {
        return file->read(out, bytes);
      }) {}

void LineReader::refill() {
  const auto kept = static_cast<size_t>(end_ - at_);
  if (kept == window_.size()) {
    ++number_;
    fail_here("a line must be shorter than ", window_.size(), " bytes");
  }
  std::memmove(window_.data(), at_, kept);
  const size_t got = source_(window_.data() + kept, window_.size() - kept);
  exhausted_ = kept + got < window_.size();
  at_ = window_.data();
  end_ = at_ + kept + got;
}

bool LineReader::next() {
  const char* last;
  for (;;) {
    last = static_cast<const char*>(std::memchr(at_, '\n', static_cast<size_t>(end_ - at_)));
    if (last || exhausted_) break;
    refill();
  }
  if (!last && at_ == end_) return false;
  const char* first = std::exchange(at_, last ? last + 1 : end_);
  if (!last) last = end_;
  if (last != first && last[-1] == '\r') --last;
  line_ = {first, static_cast<size_t>(last - first)};
  ++number_;
  return true;
}

template <class Number>
Number LineNumbers::parse(const char* what) {
  Number value{};
  const auto [stop, error] = std::from_chars(at_, end_, value);
  const bool ends = stop == end_ || *stop == ',' || *stop == ' ' || *stop == '\t';
  if (error != std::errc{} || !ends) refuse(what);
  at_ = stop;
  skip_blanks();
  if (at_ != end_ && *at_ == ',') {
    ++at_;
    skip_blanks();
    if (at_ == end_) refuse("a number after the comma");
  }
  return value;
}

int64_t LineNumbers::integer(const char* what) {
  return parse<int64_t>(what);
}

float LineNumbers::number(const char* what) {
  const LineNumbers before = *this;
  const auto value = parse<double>(what);
  if (!(std::abs(value) <= double{std::numeric_limits<float>::max()})) {
    before.refuse(c10::str(what, " that is finite in float32"));
  }
  return static_cast<float>(value);
}

void LineNumbers::end() const {
  if (!done()) refuse("the end of the line");
}

void LineNumbers::refuse(const std::string& what) const {
  if (done()) reader_.fail_here("expected ", what, ", got the end of the line");
  reader_.fail_here("expected ", what, ", got ", quoted({at_, std::find(at_, end_, ',')}));
}

}  // namespace topomask::io
