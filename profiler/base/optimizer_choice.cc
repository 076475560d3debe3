#include "profiler/base/optimizer_choice.h"

#include <algorithm>
#include <charconv>

#include "profiler/base/choice_text.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/base/nearest_word.h"

namespace mptune {
namespace {

constexpr const char* kOptimizerOption = "--optimizer";

/// Reads a number from 0 to 1. `open`: 1 itself is too much.
double share_in(const ChoicePart& part, bool open) {
  double number = -1;
  const auto [end, error] = std::from_chars(part.value.data(), part.value.data() + part.value.size(), number);
  const bool whole = !part.value.empty() && error == std::errc() && end == part.value.data() + part.value.size();
  if (!whole || !(number >= 0 && (open ? number < 1 : number <= 1)))
    throw Error("'" + part.value + "' is not a value of " + part.name, kOptimizerOption,
                std::string("give a number from 0 to 1") + (open ? ", but not 1" : ""));
  return number;
}

template <class Value>
Value one_of(const ChoicePart& part, const char* first, Value if_first, const char* second, Value if_second) {
  if (part.value == first) return if_first;
  if (part.value == second) return if_second;
  throw Error("'" + part.value + "' is not a value of " + part.name, kOptimizerOption,
              "write " + part.name + "=" + first + " or " + part.name + "=" + second);
}

std::vector<std::string> parts_of(OptimizerKind kind) {
  if (kind == OptimizerKind::sgd) return {"momentum", "nesterov", "weight_decay", "decay"};
  return {"beta1", "beta2", "eps", "weight_decay", "decay"};
}

void set_part(OptimizerChoice& optimizer, const ChoicePart& part) {
  const std::vector<std::string> known = parts_of(optimizer.kind);
  if (std::ranges::find(known, part.name) == known.end()) {
    std::string all;
    for (const std::string& name : known) all += (all.empty() ? "use " : ", ") + name;
    throw Error(std::string(kOptimizerNames[as_index(optimizer.kind)]) + " has no '" + part.name + "'", kOptimizerOption,
                did_you_mean(part.name, known, all));
  }
  if (part.name == "momentum") optimizer.momentum = share_in(part, true);
  if (part.name == "nesterov") optimizer.nesterov = one_of(part, "true", true, "false", false);
  if (part.name == "beta1") optimizer.beta1 = share_in(part, true);
  if (part.name == "beta2") optimizer.beta2 = share_in(part, true);
  if (part.name == "eps") optimizer.epsilon = share_in(part, false);
  if (part.name == "weight_decay") optimizer.weight_decay = share_in(part, false);
  if (part.name == "decay") optimizer.decays_vectors = one_of(part, "all", true, "matrices", false);
}

}  // namespace

double weight_decay_of(const OptimizerChoice& optimizer) {
  return optimizer.weight_decay.value_or(optimizer.kind == OptimizerKind::adamw ? 0.01 : 0);
}

double optimizer_state_factor(const OptimizerChoice& optimizer) {
  if (optimizer.kind != OptimizerKind::sgd) return 2;
  return optimizer.momentum > 0 ? 1 : 0;
}

std::vector<std::string> optimizer_names() {
  return {kOptimizerNames.begin(), kOptimizerNames.end()};
}

OptimizerChoice parse_optimizer(const std::string& text) {
  const auto [name, parts] = split_choice(text);
  const auto found = std::ranges::find(kOptimizerNames, name);
  if (found == kOptimizerNames.end())
    throw Error("unknown optimizer '" + name + "'", kOptimizerOption, did_you_mean(name, optimizer_names(), "use sgd, adam or adamw"));
  OptimizerChoice optimizer;
  optimizer.kind = static_cast<OptimizerKind>(found - kOptimizerNames.begin());
  for (const ChoicePart& part : parts) set_part(optimizer, part);
  if (optimizer.nesterov && optimizer.momentum == 0) throw Error("nesterov needs a momentum", kOptimizerOption, "add momentum=0.9");
  return optimizer;
}

std::string text_of(const OptimizerChoice& optimizer) {
  const OptimizerChoice usual{.kind = optimizer.kind, .weight_decay = std::nullopt};
  std::string text = kOptimizerNames[as_index(optimizer.kind)];
  const auto add = [&](const char* name, double value, double usual_value) {
    std::array<char, 32> number{};
    const char* const end = std::to_chars(number.data(), number.data() + number.size(), value).ptr;
    if (value != usual_value)
      text += std::string(":") + name + "=" + std::string(number.data(), static_cast<std::size_t>(end - number.data()));
  };
  add("momentum", optimizer.momentum, usual.momentum);
  if (optimizer.nesterov) text += ":nesterov=true";
  add("beta1", optimizer.beta1, usual.beta1);
  add("beta2", optimizer.beta2, usual.beta2);
  add("eps", optimizer.epsilon, usual.epsilon);
  add("weight_decay", weight_decay_of(optimizer), weight_decay_of(usual));
  if (!optimizer.decays_vectors) text += ":decay=matrices";
  return text;
}

}  // namespace mptune
