#include "profiler/model/loss.h"

#include <torch/torch.h>

#include "profiler/base/error.h"
#include "profiler/base/text.h"
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

at::Tensor cross_entropy_of(const Tensors& outputs, const at::Tensor& target) {
  check_target(outputs, target, "cross_entropy");
  const auto& output = outputs.front();
  if (at::isFloatingType(target.scalar_type()))
    throw Error("the target holds floating-point numbers", "--loss cross_entropy", "give class numbers as int64, or use --loss mse");
  const auto classes = target.scalar_type() == at::kLong ? target : target.to(at::kLong);
  // Language models: (samples, positions, classes).
  if (output.dim() == 3 && target.dim() == 2 && output.size(1) == target.size(1))
    return at::cross_entropy_loss(output.flatten(0, 1), classes.flatten());
  return at::cross_entropy_loss(output, classes);
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
  return outputs.front().square().mean();
}

}  // namespace

Loss Loss::cross_entropy() {
  return {"cross_entropy", cross_entropy_of};
}
Loss Loss::mse() {
  return {"mse", mse_of};
}
Loss Loss::mean_square() {
  return {"mean_square", mean_square_of};
}

Loss Loss::custom(std::string name, std::function<at::Tensor(const Tensors& outputs, const at::Tensor& target)> function) {
  if (function == nullptr) throw Error("the loss has no function", name, "pass one that returns the mean over the samples");
  return {std::move(name), std::move(function)};
}

at::Tensor Loss::operator()(const Tensors& outputs, const at::Tensor& target) const {
  at::Tensor loss = function_(outputs, target);
  if (!loss.defined()) throw Error("the loss returned no tensor", name_, "return the mean over the samples");
  if (loss.numel() != 1)
    throw Error("the loss is a tensor of " + shape_text(loss.sizes()) + ", not a number", name_, "return the mean over the samples");
  return loss;
}

Loss Loss::from_name(const std::string& name) {
  for (const auto& loss : {cross_entropy(), mse(), mean_square()})
    if (loss.name() == name) return loss;
  throw Error("unknown loss '" + name + "'", "--loss", "use cross_entropy, mse, mean_square, or model for the model's own");
}

}  // namespace mptune
