#include "profiler/base/loss_choice.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

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
    throw Error("'" + text + "' in '" + part + "' is not a number", kLossOption,
                "write a number, as in cross_entropy:ignore_index=0:weight=1,2.5,1");
  return number;
}

std::vector<double> weights_in(const ChoicePart& part, const std::string& of_what) {
  std::vector<double> weights;
  for (const std::string& one : split(part.value, ',')) {
    weights.push_back(number_in<double>(one, part.text));
    if (!std::isfinite(weights.back()) || weights.back() < 0)
      throw Error("a weight in '" + part.text + "' is negative or not finite", kLossOption, "give a number from 0 on for every " + of_what);
  }
  if (std::ranges::all_of(weights, [](double weight) { return weight == 0; }))
    throw Error("no " + of_what + " counts in '" + part.text + "'", kLossOption, "give at least one " + of_what + " a weight above 0");
  return weights;
}

void set_part(LossChoice& loss, const ChoicePart& part) {
  const bool of_classes = loss.kind == LossKind::cross_entropy;
  if (part.name == "outputs") return (void)(loss.output_weights = weights_in(part, "output"));
  if (of_classes && part.name == "ignore_index") return (void)(loss.ignore_index = number_in<std::int64_t>(part.value, part.text));
  if (of_classes && part.name == "weight") return (void)(loss.class_weights = weights_in(part, "class"));
  const std::string name = kLossNames[as_index(loss.kind)];
  if (!of_classes) throw Error(name + " takes no '" + part.text + "'", kLossOption, "write " + name + " alone, or with outputs=W,W,..");
  throw Error(name + " has no '" + part.name + "'", kLossOption,
              did_you_mean(part.name, {"ignore_index", "weight", "outputs"}, "use ignore_index=N, weight=W,W,.. or outputs=W,W,.."));
}

// Writes the weights in as many digits as it takes to read the same number again.
void append_weights(std::string& text, const char* name, const std::vector<double>& weights) {
  std::array<char, 32> digits{};
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), weights[i]).ptr;
    text += (i == 0 ? ":" + std::string(name) + "=" : ",") + std::string(digits.data(), end);
  }
}

}  // namespace

std::size_t LossChoice::first_output() const {
  const auto first = std::ranges::find_if(output_weights, [](double weight) { return weight > 0; });
  return first == output_weights.end() ? 0 : as_index(first - output_weights.begin());
}

LossChoice parse_loss(const std::string& text) {
  const auto [name, parts] = split_choice(text);
  const auto found = std::ranges::find(kLossNames, name);
  if (found == kLossNames.end())
    throw Error("unknown loss '" + name + "'", kLossOption,
                did_you_mean(name, {kLossNames.begin(), kLossNames.end()}, "use cross_entropy, mse, mean_square or model"));
  LossChoice loss;
  loss.kind = static_cast<LossKind>(found - kLossNames.begin());
  for (const ChoicePart& part : parts) set_part(loss, part);
  return loss;
}

std::string text_of(const LossChoice& loss) {
  std::string text = kLossNames[as_index(loss.kind)];
  if (loss.ignore_index != LossChoice().ignore_index) text += ":ignore_index=" + std::to_string(loss.ignore_index);
  append_weights(text, "weight", loss.class_weights);
  append_weights(text, "outputs", loss.output_weights);
  return text;
}

}  // namespace mptune
