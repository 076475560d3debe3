#include "profiler/base/loss_choice.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>

#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/base/nearest_word.h"
#include "profiler/base/text.h"

namespace mptune {
namespace {

constexpr const char* kOption = "--loss";

template <class Number>
Number number_in(const std::string& text, const std::string& part) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size())
    throw Error("'" + text + "' in '" + part + "' is no number", kOption, "write cross_entropy:ignore_index=0:weight=1,2.5,1");
  return number;
}

std::vector<double> weights_in(const std::string& text, const std::string& part) {
  std::vector<double> weights;
  for (const std::string& one : split(text, ',')) {
    weights.push_back(number_in<double>(one, part));
    if (!std::isfinite(weights.back()) || weights.back() < 0)
      throw Error("a weight in '" + part + "' is negative or not finite", kOption, "give a number from 0 on for every class");
  }
  if (std::ranges::all_of(weights, [](double weight) { return weight == 0; }))
    throw Error("no class counts in '" + part + "'", kOption, "give at least one class a weight above 0");
  return weights;
}

void set_part(LossChoice& loss, const std::string& part) {
  const std::size_t equals = part.find('=');
  const std::string name = part.substr(0, equals), value = equals == std::string::npos ? "" : part.substr(equals + 1);
  if (name == "ignore_index") return (void)(loss.ignore_index = number_in<std::int64_t>(value, part));
  if (name == "weight") return (void)(loss.class_weights = weights_in(value, part));
  throw Error("cross_entropy has no '" + name + "'", kOption,
              did_you_mean(name, {"ignore_index", "weight"}, "use ignore_index=N or weight=W,W,.."));
}

}  // namespace

LossChoice parse_loss(const std::string& text) {
  const std::vector<std::string> parts = split(text, ':');
  const std::string name = parts.empty() ? "" : parts.front();
  const auto found = std::ranges::find(kLossNames, name);
  if (found == kLossNames.end())
    throw Error("unknown loss '" + name + "'", kOption,
                did_you_mean(name, {kLossNames.begin(), kLossNames.end()}, "use cross_entropy, mse, mean_square or model"));
  LossChoice loss;
  loss.kind = static_cast<LossKind>(found - kLossNames.begin());
  if (loss.kind != LossKind::cross_entropy && parts.size() > 1)
    throw Error(name + " takes no '" + parts[1] + "'", kOption, "write " + name + " alone");
  for (std::size_t i = 1; i < parts.size(); ++i) set_part(loss, parts[i]);
  return loss;
}

std::string text_of(const LossChoice& loss) {
  std::ostringstream text;
  text << kLossNames[as_index(loss.kind)];
  if (loss.ignore_index != LossChoice().ignore_index) text << ":ignore_index=" << loss.ignore_index;
  for (std::size_t i = 0; i < loss.class_weights.size(); ++i) text << (i == 0 ? ":weight=" : ",") << loss.class_weights[i];
  return text.str();
}

}  // namespace mptune
