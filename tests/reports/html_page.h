#pragma once

#include <algorithm>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

namespace mptune::testing {

/// Why `page` is not well-formed: a tag that is not closed, a bare mark in text or attributes; "" where it is.
/// What stands in <style> and <script> is left out.
inline std::string markup_fault(const std::string& page) {
  constexpr std::string_view kVoid[] = {"meta", "!doctype", "!--"};
  std::vector<std::string> open;
  for (std::size_t at = 0; at < page.size();) {
    if (page[at] == '>') return "a bare > before " + page.substr(at, 40);
    if (page[at] != '<') {
      ++at;
      continue;
    }
    const bool comment = page.compare(at, 4, "<!--") == 0;
    const std::size_t end = page.find(comment ? "-->" : ">", at);
    if (end == std::string::npos) return "a tag without an end";
    std::string tag = page.substr(at + 1, end - at - 1);
    at = end + (comment ? 3 : 1);
    if (std::ranges::any_of(kVoid, [&](std::string_view name) { return tag.starts_with(name); })) continue;
    if (std::ranges::count(tag, '"') % 2 != 0 || tag.find('<') != std::string::npos) return "attributes of <" + tag;
    if (tag.ends_with('/')) continue;
    const std::string name = tag.substr(tag.starts_with('/') ? 1 : 0, tag.find_first_of(" ") - (tag.starts_with('/') ? 1 : 0));
    if (!tag.starts_with('/')) {
      if (name == "style" || name == "script") at = page.find("</" + name + ">", at);
      open.push_back(name);
      if (at == std::string::npos) return name + " without an end";
      continue;
    }
    if (open.empty() || open.back() != name) return "</" + name + "> closes " + (open.empty() ? "nothing" : open.back());
    open.pop_back();
  }
  return open.empty() ? "" : open.back() + " is not closed";
}

/// All numbers that `pattern` captures.
inline std::vector<double> numbers_in(const std::string& text, const std::string& pattern) {
  std::vector<double> found;
  const std::regex expression(pattern);
  for (std::sregex_iterator match(text.begin(), text.end(), expression), end; match != end; ++match)
    found.push_back(std::stod((*match)[1]));
  return found;
}

}  // namespace mptune::testing
