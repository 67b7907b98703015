#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace topomask::apps {

/// printf into a string; a C function, so that the compiler checks the arguments.
__attribute__((format(printf, 1, 2))) std::string format(const char* pattern, ...);

/// Text that is safe inside HTML and its attributes.
std::string escape(const std::string& text);

/// <img> of uint8 [3, H, W], the PNG inside the page.
std::string inline_image(const at::Tensor& image, const std::string& description, const std::string& css_class = "");

/// A section with a heading; `id` is what the contents at the top link to.
struct Section {
  std::string id, title, body;
};

/// A whole page, with everything it needs inside: it is readable in light and dark mode and on a phone, and loads
/// nothing.
std::string page(const std::string& title, const std::string& lead, const std::vector<Section>& sections);

/// A table whose first row is the head; cells are HTML. Columns but the first are aligned right.
std::string html_table(const std::vector<std::vector<std::string>>& rows);

/// The colour of a series, as CSS.
std::string series_colour(size_t index);

/// Names with their colours.
std::string legend(const std::vector<std::string>& names);

}  // namespace topomask::apps
