#include "report/html.h"

#include <cstdarg>
#include <cstdio>

#include "topomask/data/image.h"

namespace topomask::apps {
namespace {

constexpr const char* kStyle = R"(
:root { color-scheme: light dark;
  --back: #fdfdfc; --fore: #1d2126; --soft: #667; --line: #d9dbe0; --card: #f3f4f6; --good: #0a7d4b; --bad: #b3261e;
  --s0: #0b63a8; --s1: #c8500a; --s2: #0b8a62; --s3: #b0458c; --s4: #8a6a00; --s5: #3f8fd0; --s6: #7a4fc0; --s7: #666; }
@media (prefers-color-scheme: dark) { :root {
  --back: #15181c; --fore: #e6e8eb; --soft: #9aa3ad; --line: #343a42; --card: #1f242a; --good: #4fc792; --bad: #f2877f;
  --s0: #5aa9ea; --s1: #f08a4b; --s2: #3fc795; --s3: #e084bd; --s4: #d9b340; --s5: #9ccbf2; --s6: #b394f0; --s7: #aaa; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.2rem 1rem 4rem; max-width: 62rem; background: var(--back); color: var(--fore);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: .4rem 0; }
h2 { font-size: 1.2rem; margin: 2.6rem 0 .4rem; border-top: 1px solid var(--line); padding-top: 1.2rem; }
h3 { font-size: 1rem; margin: 1.2rem 0 .3rem; }
p, li { max-width: 46rem; } p { margin: .5rem 0; }
.soft, figcaption, .axis text { color: var(--soft); fill: var(--soft); font-size: .85rem; }
nav { display: flex; flex-wrap: wrap; gap: .2rem 1rem; margin: .8rem 0; font-size: .9rem; }
a { color: var(--s0); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .93rem; }
th, td { padding: .35rem .7rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th { color: var(--soft); font-weight: 500; } th:first-child, td:first-child { text-align: left; padding-left: 0; }
td.noise { color: var(--soft); } td.better { color: var(--good); font-weight: 600; } td.worse { color: var(--bad); }
figure { margin: .8rem 0; } svg { display: block; width: 100%; height: auto; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); gap: 1rem 1.6rem; }
.small { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 13.5rem), 1fr)); gap: .6rem 1.2rem; }
.legend { display: flex; flex-wrap: wrap; gap: .1rem 1rem; font-size: .88rem; }
.legend span::before { content: ""; display: inline-block; width: .8em; height: .8em; margin-right: .4em;
  border-radius: 2px; background: var(--c); }
img { image-rendering: pixelated; max-width: 100%; height: auto; border-radius: 3px; vertical-align: top; }
.maps td, .maps th { padding: .2rem .35rem; border: 0; text-align: center; font-size: .8rem; }
.maps td:first-child { text-align: left; } .maps .soft { font-size: inherit; } .maps img { width: 5.6rem; max-width: none; }
.heads { display: flex; flex-wrap: wrap; gap: .4rem; } .heads img { width: 6rem; }
.scale { display: flex; flex-direction: column; gap: .1rem; max-width: 26rem; margin: .3rem 0; }
.scale img { width: 100%; height: .8rem; image-rendering: auto; }
.scale div { display: flex; justify-content: space-between; font-size: .78rem; color: var(--soft); }
code { font-size: .86em; overflow-wrap: anywhere; } td code { white-space: normal; } td.left { text-align: left; }
details { margin: .6rem 0; } summary { cursor: pointer; color: var(--s0); }
.chart { font-size: 12px; } .axis line, .grid { stroke: var(--line); } .chart text { fill: var(--soft); }
)";

constexpr size_t kColours = 8;

std::string base64(const std::string& bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t word = 0;
    for (size_t k = 0; k < 3; ++k) word = word << 8 | (i + k < bytes.size() ? static_cast<uint8_t>(bytes[i + k]) : 0U);
    for (int k = 0; k < 4; ++k) text += kDigits[word >> (18 - 6 * k) & 63];
  }
  for (size_t missing = (3 - bytes.size() % 3) % 3; missing > 0; --missing) text[text.size() - missing] = '=';
  return text;
}

}  // namespace

std::string format(const char* pattern, ...) {
  std::va_list first, second;
  va_start(first, pattern);
  va_copy(second, first);
  std::string text(static_cast<size_t>(std::max(0, std::vsnprintf(nullptr, 0, pattern, first))), '\0');
  std::vsnprintf(text.data(), text.size() + 1, pattern, second);
  va_end(second);
  va_end(first);
  return text;
}

std::string escape(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

std::string inline_image(const at::Tensor& image, const std::string& description, const std::string& css_class) {
  return "<img alt=\"" + escape(description) + "\" title=\"" + escape(description) + "\"" +
         (css_class.empty() ? "" : " class=\"" + css_class + "\"") + " width=\"" + std::to_string(image.size(2)) +
         "\" height=\"" + std::to_string(image.size(1)) + "\" src=\"data:image/png;base64," +
         base64(encode_png(image)) + "\">";
}

std::string page(const std::string& title, const std::string& lead, const std::vector<Section>& sections) {
  std::string contents, body;
  for (const Section& section : sections) {
    contents += "<a href=\"#" + section.id + "\">" + escape(section.title) + "</a>";
    body +=
        "<section id=\"" + section.id + "\"><h2>" + escape(section.title) + "</h2>\n" + section.body + "</section>\n";
  }
  return "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
         // The browser enforces that the page loads nothing from the network.
         "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; style-src "
         "'unsafe-inline'\">"
         "<link rel=\"icon\" href=\"data:,\">"
         "<title>" +
         escape(title) + "</title><style>" + kStyle + "</style></head>\n<body><h1>" + escape(title) + "</h1>\n" + lead +
         "<nav>" + contents + "</nav>\n" + body + "</body></html>\n";
}

std::string html_table(const std::vector<std::vector<std::string>>& rows) {
  std::string text = "<div class=\"wide\"><table>";
  for (size_t r = 0; r < rows.size(); ++r) {
    text += "<tr>";
    for (const std::string& cell : rows[r]) {
      // A cell may bring a class of its own: "<td class=…>".
      text += r == 0 ? "<th>" + cell + "</th>" : cell.starts_with("<td") ? cell + "</td>" : "<td>" + cell + "</td>";
    }
    text += "</tr>\n";
  }
  return text + "</table></div>\n";
}

std::string series_colour(size_t index) {
  return "var(--s" + std::to_string(index % kColours) + ")";
}

std::string legend(const std::vector<std::string>& names) {
  std::string text = "<div class=\"legend\">";
  for (size_t i = 0; i < names.size(); ++i) {
    text += "<span style=\"--c:" + series_colour(i) + "\">" + escape(names[i]) + "</span>";
  }
  return text + "</div>\n";
}

}  // namespace topomask::apps
