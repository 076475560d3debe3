#include "profiler/model/layers/loss.h"

#include <ATen/autocast_mode.h>
#include <torch/types.h>

#include <numeric>

#include "profiler/base/error.h"
#include "profiler/base/text.h"
#include "profiler/model/layers/autocast_scope.h"
#include "profiler/model/layers/scalar_types.h"

namespace mptune {
namespace {

void check_target(const at::Tensor& target, const char* loss) {
  if (!target.defined()) {
    throw Error("the loss needs a target and there is none", std::string("--loss ") + loss,
                "give a batch with a target, or use --loss mean_square");
  }
}

/// Returns the type of the mean: under autocast, the mean of what was computed in 16 bits is taken in float32.
at::ScalarType type_of_mean(const at::Tensor& output) {
  const at::ScalarType type = output.scalar_type();
  const bool half = type == at::kHalf || type == at::kBFloat16;
  return half && at::autocast::is_autocast_enabled(output.device().type()) ? at::kFloat : type;
}

/// Returns the weights of the classes, as the mean takes them; undefined: 1 each.
at::Tensor class_weights_for(const at::Tensor& output, std::int64_t classes, const std::vector<double>& weights) {
  if (weights.empty()) return {};
  if (std::ssize(weights) != classes)
    throw Error(std::to_string(weights.size()) + " class weights for " + std::to_string(classes) + " classes", "--loss cross_entropy",
                "give one for every class");
  return at::tensor(weights, at::kDouble).to(output.options().dtype(type_of_mean(output)).requires_grad(false));
}

/// Throws an error of its own, since LibTorch's names neither the number of classes nor a remedy.
void check_range(const at::Tensor& target, std::int64_t classes, std::int64_t ignored) {
  const at::Tensor wrong = target.masked_select((target.lt(0) | target.ge(classes)) & target.ne(ignored));
  if (wrong.numel() > 0)
    throw Error("a target is " + std::to_string(wrong[0].item<std::int64_t>()) + ", the model has " + std::to_string(classes) + " classes",
                "--loss cross_entropy", "give targets from 0 to " + std::to_string(classes - 1) + ", or the ignore_index");
}

/// Takes probabilities of the classes as targets, as mixup and distillation give them.
at::Tensor cross_entropy_of_probabilities(const at::Tensor& output, const at::Tensor& target, const LossChoice& choice) {
  if (output.sizes() != target.sizes() || output.dim() < 2)
    throw Error("a target of probabilities is " + shape_text(target.sizes()) + ", the output " + shape_text(output.sizes()),
                "--loss cross_entropy", "give a probability for each class, in the output's shape, or class numbers as int64");
  if (choice.ignore_index != LossChoice{}.ignore_index)
    throw Error("the target holds probabilities, which no ignore_index leaves out", "--loss " + text_of(choice),
                "leave ignore_index out, or give class numbers as int64");
  return at::cross_entropy_loss(output, target.to(type_of_mean(output)), class_weights_for(output, output.size(1), choice.class_weights));
}

at::Tensor cross_entropy_of(const at::Tensor& output, const at::Tensor& target, const LossChoice& choice) {
  check_target(target, "cross_entropy");
  if (at::isFloatingType(target.scalar_type())) return cross_entropy_of_probabilities(output, target, choice);
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
  // A target that is not a class is refused by the loss.
  const at::Tensor known = classes.clamp(0, weights.size(0) - 1);
  return of_samples(weights.index({known.unsqueeze(-1)}) * rows);
}

at::Tensor mse_of(const at::Tensor& output, const at::Tensor& target) {
  check_target(target, "mse");
  if (output.sizes() != target.sizes()) {
    throw Error("output " + shape_text(output.sizes()) + " and target " + shape_text(target.sizes()) + " differ in shape", "--loss mse",
                "give a target of the output's shape, or use --loss cross_entropy for class numbers");
  }
  return at::mse_loss(output, target);
}

at::Tensor mean_square_of(const at::Tensor& output) {
  return output.to(type_of_mean(output)).square().mean();
}

at::Tensor loss_of_output(const at::Tensor& output, const at::Tensor& target, const LossChoice& choice) {
  if (!output.defined())
    throw Error("an output that the loss takes is None", "--loss " + text_of(choice), "let the last layer return a tensor there");
  switch (choice.kind) {
    case LossKind::cross_entropy:
      return cross_entropy_of(output, target, choice);
    case LossKind::mse:
      return mse_of(output, target);
    case LossKind::mean_square:
      break;
  }
  return mean_square_of(output);
}

at::Tensor loss_of_outputs(const Tensors& outputs, const at::Tensor& target, const LossChoice& choice) {
  if (outputs.empty()) throw Error("the model has no output", "--loss " + text_of(choice), "let the last layer return a tensor");
  const std::vector<double>& weights = choice.output_weights;
  if (weights.empty()) return loss_of_output(outputs.front(), target, choice);
  if (weights.size() > outputs.size())
    throw Error("the loss is of " + counted(std::ssize(weights), "output") + ", the model has " + std::to_string(outputs.size()),
                "--loss " + text_of(choice), "give at most one weight for every output of the model");
  at::Tensor sum;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == 0) continue;
    const at::Tensor term = loss_of_output(outputs[i], target, choice) * weights[i];
    sum = sum.defined() ? sum + term : term;
  }
  return sum;
}

}  // namespace

Loss Loss::of(const LossChoice& choice) {
  const auto function = [choice](const Tensors& outputs, const at::Tensor& target) { return loss_of_outputs(outputs, target, choice); };
  Counted counted;
  if (choice.kind == LossKind::cross_entropy)
    counted = [choice](const at::Tensor& target) { return counted_by_cross_entropy(target, choice); };
  return {text_of(choice), function, counted, choice};
}
Loss Loss::cross_entropy() {
  return of({.kind = LossKind::cross_entropy});
}
Loss Loss::mse() {
  return of({.kind = LossKind::mse});
}
Loss Loss::mean_square() {
  return of({.kind = LossKind::mean_square});
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
  return of(parse_loss(name));
}

}  // namespace mptune
