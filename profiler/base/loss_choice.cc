#include "profiler/base/loss_choice.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>

#include "profiler/base/choice_text.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/base/nearest_word.h"
#include "profiler/base/text.h"

namespace mptune {
namespace {

constexpr const char* kLossOption = "--loss";

template <class Number>
Number number_in(const std::string& text, const std::string& part) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size())
    throw Error("'" + text + "' in '" + part + "' is no number", kLossOption, "write cross_entropy:ignore_index=0:weight=1,2.5,1");
  return number;
}

std::vector<double> weights_in(const std::string& text, const std::string& part) {
  std::vector<double> weights;
  for (const std::string& one : split(text, ',')) {
    weights.push_back(number_in<double>(one, part));
    if (!std::isfinite(weights.back()) || weights.back() < 0)
      throw Error("a weight in '" + part + "' is negative or not finite", kLossOption, "give a number from 0 on for every class");
  }
  if (std::ranges::all_of(weights, [](double weight) { return weight == 0; }))
    throw Error("no class counts in '" + part + "'", kLossOption, "give at least one class a weight above 0");
  return weights;
}

void set_part(LossChoice& loss, const ChoicePart& part) {
  if (part.name == "ignore_index") return (void)(loss.ignore_index = number_in<std::int64_t>(part.value, part.text));
  if (part.name == "weight") return (void)(loss.class_weights = weights_in(part.value, part.text));
  throw Error("cross_entropy has no '" + part.name + "'", kLossOption,
              did_you_mean(part.name, {"ignore_index", "weight"}, "use ignore_index=N or weight=W,W,.."));
}

}  // namespace

LossChoice parse_loss(const std::string& text) {
  const auto [name, parts] = split_choice(text);
  const auto found = std::ranges::find(kLossNames, name);
  if (found == kLossNames.end())
    throw Error("unknown loss '" + name + "'", kLossOption,
                did_you_mean(name, {kLossNames.begin(), kLossNames.end()}, "use cross_entropy, mse, mean_square or model"));
  LossChoice loss;
  loss.kind = static_cast<LossKind>(found - kLossNames.begin());
  if (loss.kind != LossKind::cross_entropy && !parts.empty())
    throw Error(name + " takes no '" + parts[0].text + "'", kLossOption, "write " + name + " alone");
  for (const ChoicePart& part : parts) set_part(loss, part);
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
