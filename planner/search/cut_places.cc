#include "planner/search/cut_places.h"

#include <fnmatch.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "planner/plan/field.h"
#include "planner/plan/plan.h"
#include "profiler/base/index.h"
#include "profiler/base/text.h"

namespace mptune::planner {
namespace {

constexpr std::size_t kNamedInErrors = 4;

using Parts = std::vector<std::string>;

/// Returns the module that the pattern names and that `module` is a part of: "model.layers.3" of "model.layers.3.mlp.up" for
/// "model.layers.*".
std::optional<std::string> named_by(const Parts& pattern, const std::string& module) {
  const Parts parts = split(module, '.');
  if (parts.size() < pattern.size()) return std::nullopt;
  for (std::size_t i = 0; i < pattern.size(); ++i)
    if (::fnmatch(pattern[i].c_str(), parts[i].c_str(), FNM_NOESCAPE) != 0) return std::nullopt;
  return join(Parts(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(pattern.size())), ".");
}

std::vector<Parts> patterns_of(const std::string& text) {
  std::vector<Parts> patterns;
  for (const std::string& one : split(text, ',')) {
    patterns.push_back(split(one, '.'));
    if (std::ranges::any_of(patterns.back(), &std::string::empty))
      throw FieldError(Field::cut_at, "'" + one + "' is not a path of modules", "use parts with dots between them, as in model.layers.*");
  }
  return patterns;
}

/// Returns the first and last layer of each module that a pattern names.
std::map<std::string, std::pair<int, int>> modules_named(const std::vector<Parts>& patterns, const std::vector<ProfileLayer>& layers) {
  std::map<std::string, std::pair<int, int>> modules;
  for (std::size_t i = 0; i < layers.size(); ++i)
    for (const std::string& module : layers[i].modules)
      for (const Parts& pattern : patterns)
        if (const auto name = named_by(pattern, module))
          modules.try_emplace(*name, static_cast<int>(i), 0).first->second.second = static_cast<int>(i);
  return modules;
}

/// Returns some of the model's modules, as an example.
std::string some_modules(const std::vector<ProfileLayer>& layers) {
  std::vector<std::string> names;
  for (const ProfileLayer& layer : layers)
    for (const std::string& module : layer.modules)
      if (names.size() < kNamedInErrors && std::ranges::find(names, module) == names.end()) names.push_back(module);
  return join(names, ", ");
}

}  // namespace

std::vector<int> cut_places(const std::string& pattern, const std::vector<ProfileLayer>& layers) {
  const std::vector<Parts> patterns = patterns_of(pattern);
  const auto modules = modules_named(patterns, layers);
  if (modules.empty()) {
    const std::string some = some_modules(layers);
    throw FieldError(Field::cut_at, "no module is named by '" + pattern + "'",
                     some.empty() ? "leave it out: this profile names no modules" : "name modules of the model, which has " + some);
  }
  // A module does not begin a stage where its layer begins with something else.
  const auto begins_with = [&](int place, const std::string& name) {
    const std::string& first = layers[as_index(place)].modules.front();
    return std::ranges::any_of(patterns, [&](const Parts& one) { return named_by(one, first) == name; });
  };
  std::set<int> places;
  for (const auto& [name, range] : modules) {
    const int place = range.first;
    const auto divides = [&](const auto& other) { return other.second.first < place && place <= other.second.second; };
    if (place > 0 && begins_with(place, name) && std::ranges::none_of(modules, divides)) places.insert(place);
  }
  if (places.empty())
    throw FieldError(Field::cut_at, "no cut is possible before a module that '" + pattern + "' names",
                     "name smaller modules, or leave it out");
  return {places.begin(), places.end()};
}

Profile with_cut_places(Profile profile, const std::vector<int>& places) {
  if (places.empty()) return profile;
  for (int layer = 1; layer < static_cast<int>(profile.layers.size()); ++layer)
    if (!std::ranges::binary_search(places, layer))
      profile.forbidden_cuts.push_back({layer, "no module that a stage may begin with begins there"});
  return profile;
}

std::vector<int> nearly_equal_cuts(const std::vector<int>& places, int layers, int stages) {
  const std::vector<int> wishes = equal_cuts(layers, stages);
  std::vector<int> cuts;
  std::size_t next = 0;
  for (int s = 1; s < stages; ++s) {
    const int wish = wishes[as_index(s - 1)];
    const std::size_t last = places.size() - as_index(stages - 1 - s);  // one past the last that leaves enough for the stages after it
    const auto off = [&](int place) { return std::abs(place - wish); };
    const auto begin = places.begin() + static_cast<std::ptrdiff_t>(next), end = places.begin() + static_cast<std::ptrdiff_t>(last);
    const auto nearest = std::min_element(begin, end, [&](int a, int b) { return off(a) < off(b); });
    cuts.push_back(*nearest);
    next = as_index(nearest - places.begin()) + 1;
  }
  return cuts;
}

}  // namespace mptune::planner
