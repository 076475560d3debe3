#include "profiler/model/loss.h"

#include <ATen/autocast_mode.h>
#include <torch/torch.h>

#include <numeric>

#include "profiler/base/error.h"
#include "profiler/base/text.h"
#include "profiler/model/autocast_scope.h"
#include "profiler/model/scalar_types.h"

namespace mptune {
namespace {

void check_target(const Tensors& outputs, const at::Tensor& target, const char* loss) {
  if (outputs.empty()) throw Error("the model has no output", std::string("--loss ") + loss, "let the last layer return a tensor");
  if (!target.defined()) {
    throw Error("the loss needs a target and there is none", std::string("--loss ") + loss,
                "give a batch with a target, or use --loss mean_square");
  }
}

/// Under autocast the mean of what was computed in 16 bits is taken in float32.
at::ScalarType type_of_mean(const at::Tensor& output) {
  const at::ScalarType type = output.scalar_type();
  const bool half = type == at::kHalf || type == at::kBFloat16;
  return half && at::autocast::is_autocast_enabled(output.device().type()) ? at::kFloat : type;
}

/// Weights of the classes, as the mean takes them; undefined: 1 each.
at::Tensor class_weights_for(const at::Tensor& output, std::int64_t classes, const std::vector<double>& weights) {
  if (weights.empty()) return {};
  if (std::ssize(weights) != classes)
    throw Error(std::to_string(weights.size()) + " class weights for " + std::to_string(classes) + " classes", "--loss cross_entropy",
                "give one for every class");
  return at::tensor(weights, at::kDouble).to(output.options().dtype(type_of_mean(output)).requires_grad(false));
}

/// LibTorch's error names neither the number of classes nor what may be done.
void check_range(const at::Tensor& target, std::int64_t classes, std::int64_t ignored) {
  const at::Tensor wrong = target.masked_select((target.lt(0) | target.ge(classes)) & target.ne(ignored));
  if (wrong.numel() > 0)
    throw Error("a target is " + std::to_string(wrong[0].item<std::int64_t>()) + ", the model has " + std::to_string(classes) + " classes",
                "--loss cross_entropy", "give targets from 0 to " + std::to_string(classes - 1) + ", or the ignore_index");
}

at::Tensor cross_entropy_of(const Tensors& outputs, const at::Tensor& target, const LossChoice& choice) {
  check_target(outputs, target, "cross_entropy");
  const auto& output = outputs.front();
  if (at::isFloatingType(target.scalar_type()))
    throw Error("the target holds floating-point numbers", "--loss cross_entropy", "give class numbers as int64, or use --loss mse");
  const auto classes = target.scalar_type() == at::kLong ? target : target.to(at::kLong);
  // Language models: (samples, positions, classes).
  const bool positions = output.dim() == 3 && target.dim() == 2 && output.size(1) == target.size(1);
  const std::int64_t count = output.dim() < 2 ? 0 : output.size(positions ? 2 : 1);
  const at::Tensor weights = class_weights_for(output, count, choice.class_weights);
  try {
    return at::cross_entropy_loss(positions ? output.flatten(0, 1) : output, positions ? classes.flatten() : classes, weights,
                                  at::Reduction::Mean, choice.ignore_index);
  } catch (const c10::IndexError&) {
    check_range(classes, count, choice.ignore_index);
    throw;
  }
}

at::Tensor counted_by_cross_entropy(const at::Tensor& target, const LossChoice& choice) {
  if (!target.defined() || at::isFloatingType(target.scalar_type())) return {};
  const at::Tensor classes = target.to(at::kLong), counts = classes.ne(choice.ignore_index);
  const auto of_samples = [](const at::Tensor& numbers) { return numbers.flatten(1).sum(1).to(at::kDouble); };
  const at::Tensor rows = counts.unsqueeze(-1);
  if (choice.class_weights.empty()) return of_samples(rows);
  const at::Tensor weights = at::tensor(choice.class_weights, at::kDouble);
  // A target that is no class is refused by the loss.
  const at::Tensor known = classes.clamp(0, weights.size(0) - 1);
  return of_samples(weights.index({known.unsqueeze(-1)}) * rows);
}

at::Tensor mse_of(const Tensors& outputs, const at::Tensor& target) {
  check_target(outputs, target, "mse");
  if (outputs.front().sizes() != target.sizes()) {
    throw Error("output " + shape_text(outputs.front().sizes()) + " and target " + shape_text(target.sizes()) + " differ in shape",
                "--loss mse", "give a target of the output's shape, or use --loss cross_entropy for class numbers");
  }
  return at::mse_loss(outputs.front(), target);
}

at::Tensor mean_square_of(const Tensors& outputs, const at::Tensor& /*target*/) {
  if (outputs.empty()) throw Error("the model has no output", "--loss mean_square", "let the last layer return a tensor");
  return outputs.front().to(type_of_mean(outputs.front())).square().mean();
}

}  // namespace

Loss Loss::cross_entropy(const LossChoice& choice) {
  return {text_of(choice), [choice](const Tensors& outputs, const at::Tensor& target) { return cross_entropy_of(outputs, target, choice); },
          [choice](const at::Tensor& target) { return counted_by_cross_entropy(target, choice); }, choice};
}
Loss Loss::mse() {
  return {"mse", mse_of, nullptr, LossChoice{.kind = LossKind::mse, .class_weights = {}}};
}
Loss Loss::mean_square() {
  return {"mean_square", mean_square_of, nullptr, LossChoice{.kind = LossKind::mean_square, .class_weights = {}}};
}

Loss Loss::custom(std::string name, std::function<at::Tensor(const Tensors& outputs, const at::Tensor& target)> function) {
  if (function == nullptr) throw Error("the loss has no function", name, "pass one that returns the mean over the samples");
  return {std::move(name), std::move(function)};
}

Loss Loss::computed_in(Precision precision) const {
  Loss loss = *this;
  loss.precision_ = precision;
  return loss;
}

at::Tensor Loss::operator()(const Tensors& outputs, const at::Tensor& target) const {
  const profiler::AutocastScope autocast(precision_);
  at::Tensor loss = function_(outputs, target);
  if (!loss.defined()) throw Error("the loss returned no tensor", name_, "return the mean over the samples");
  if (loss.numel() != 1)
    throw Error("the loss is a tensor of " + shape_text(loss.sizes()) + ", not a number", name_, "return the mean over the samples");
  return loss;
}

at::Tensor Loss::of_nothing(const Tensors& outputs) {
  return outputs.at(0).sum() * 0;
}

std::vector<double> Loss::weights_of_parts(const at::Tensor& target, const std::vector<int>& sizes) const {
  const at::Tensor counted = counted_ ? counted_(target) : at::Tensor();
  std::vector<double> weights;
  std::int64_t first = 0;
  for (const int size : sizes) {
    double weight = size;
    if (counted.defined()) weight = counted.narrow(0, first, size).sum().item<double>();
    weights.push_back(weight);
    first += size;
  }
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (!(total > 0)) throw Error("no target of the batch counts", "--loss " + name_, "give targets other than ignore_index");
  for (double& weight : weights) weight /= total;
  return weights;
}

Loss Loss::from_name(const std::string& name) {
  const LossChoice choice = parse_loss(name);
  switch (choice.kind) {
    case LossKind::cross_entropy:
      return cross_entropy(choice);
    case LossKind::mse:
      return mse();
    case LossKind::mean_square:
      break;
  }
  return mean_square();
}

}  // namespace mptune
