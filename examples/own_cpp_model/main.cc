// Trains the network of net.h with a plan of `mptune tune ./libnet.so`. The task: which arm of a spiral is a point on?
#include "net.h"

#include <cmath>
#include <cstdio>
#include <exception>
#include <memory>
#include <vector>

namespace {

constexpr int kSteps = 150;

// Points on three arms of a spiral; `at` is the position along an arm.
mptune::Batch spiral(int samples) {
  const at::Tensor label = at::randint(kClasses, {samples}, at::kLong);
  const at::Tensor at = at::rand({samples});
  const at::Tensor angle = label * (2 * M_PI / kClasses) + at * 5 + 0.1 * at::randn({samples});
  return {{at::stack({at * angle.cos(), at * angle.sin()}, 1)}, label};
}

int train(const std::string& plan_path) {
  mptune::prepare_gpus();  // before LibTorch is used; does nothing without a GPU
  torch::manual_seed(1);
  const mptune::PlanFile plan = mptune::load_plan(plan_path);
  mptune::Pipeline pipeline(make_model(), plan);  // checks that the plan is for this network, copies the stages to their devices
  std::printf("%s\n", mptune::describe(pipeline.plan()).c_str());

  std::vector<std::unique_ptr<torch::optim::Adam>> optimizers;  // one per stage
  for (int stage = 0; stage < pipeline.plan().num_stages(); ++stage)
    optimizers.push_back(std::make_unique<torch::optim::Adam>(pipeline.parameters(stage), torch::optim::AdamOptions(1e-3)));

  double first = 0, last = 0;
  for (int step = 0; step < kSteps; ++step) {
    const mptune::Batch batch = spiral(pipeline.plan().global_batch_size());
    const auto result = pipeline.step(batch.inputs, batch.target);  // all micro-batches, forward and backward
    pipeline.on_stages([&](int stage) { optimizers[static_cast<std::size_t>(stage)]->step(); });
    last = result.loss;
    if (step == 0) first = last;
    if (step % 30 == 0 || step + 1 == kSteps) std::printf("step %3d  loss %.4f\n", step, last);
  }
  const bool learned = last < first / 4;
  std::printf("the net has %slearned\n", learned ? "" : "NOT ");
  return learned ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 || argv[1][0] == '-') {
    std::fprintf(stderr, "usage: %s PLAN_FILE\nmptune tune ./libnet.so --batch 256 --budget 20s makes one: libnet.study/libnet.plan.json\n",
                 argv[0]);
    return 2;
  }
  try {
    return train(argv[1]);
  } catch (const mptune::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
