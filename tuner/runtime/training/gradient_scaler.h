#pragma once

namespace mptune {

/// What a GradientScaler keeps between two steps.
struct LossScale {
  double scale = 65536;
  int finite_steps = 0;  ///< since the scale last changed
  bool operator==(const LossScale&) const = default;
};

/// Chooses the scale of the loss for training in fp16, as torch.amp.GradScaler does: it halves the scale after a step whose gradients are
/// not all finite, and doubles it after 2000 steps in a row whose gradients are.
///
///     pipeline.set_loss_scale(scaler.scale());
///     pipeline.step(inputs, target);
///     if (scaler.update(pipeline.unscale_gradients())) for (auto& optimizer : optimizers) optimizer->step();
class GradientScaler {
 public:
  GradientScaler() = default;
  explicit GradientScaler(const LossScale& state) : state_(state) {}

  [[nodiscard]] double scale() const { return state_.scale; }
  /// Call it after a step; `finite`: its gradients were finite. Returns `finite`: true if the optimizers are to step.
  bool update(bool finite);
  [[nodiscard]] const LossScale& state() const { return state_; }

 private:
  LossScale state_;
};

}  // namespace mptune
