#include "tuner/runtime/training/gradient_scaler.h"

namespace mptune {
namespace {

constexpr double kGrowth = 2;
constexpr double kBackoff = 0.5;
constexpr int kGrowthSteps = 2000;

}  // namespace

bool GradientScaler::update(bool finite) {
  if (!finite) {
    state_ = {state_.scale * kBackoff, 0};
  } else if (++state_.finite_steps == kGrowthSteps) {
    state_ = {state_.scale * kGrowth, 0};
  }
  return finite;
}

}  // namespace mptune
