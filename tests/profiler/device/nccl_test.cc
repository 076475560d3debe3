// NCCL on GPUs where there are some: ranks are threads here.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "profiler/device/device_worker.h"
#include "profiler/device/gpu_communicator.h"
#include "profiler/device/gpu_library.h"
#include "profiler/device/list/device_list.h"
#include "profiler/device/list/gpu_driver.h"

namespace mptune::testing {
using namespace profiler;
namespace {

TEST(Nccl, AProcessWithoutGpusHasNone) {
  if (opened_gpu_library() == nullptr) {
    EXPECT_EQ(nccl_connector(), nullptr);
  } else {
    EXPECT_NE(nccl_connector(), nullptr);
  }
}

class GpuCommunicators : public ::testing::Test {
 protected:
  void SetUp() override { require(1); }
  static void require(int gpus) {
    if (gpu_driver().gpus == 0) {
      GTEST_SKIP() << gpu_driver().problem;
    }
    if (gpu_driver().gpus < gpus) {
      GTEST_SKIP() << "this needs " << gpus << " GPUs";
    }
  }
};

/// A GPU with its compute thread, and its place in a communicator.
struct NcclMember {
  NcclMember(int gpu, const std::string& id, int members, int member)
      : device(make_device(parse_device("cuda:" + std::to_string(gpu)))),
        worker(device),
        communicator(nccl_connector()->connect(device, id, members, member)) {}
  [[nodiscard]] at::Tensor numbers(std::vector<float> values) {
    at::Tensor on_device;
    worker.run([&] { on_device = device->from_host(at::tensor(values)); });
    return on_device;
  }
  /// On the host, after the device's work.
  [[nodiscard]] at::Tensor on_host(const at::Tensor& tensor) {
    at::Tensor copy;
    worker.run([&] { copy = tensor.cpu(); });
    return copy;
  }
  std::shared_ptr<Device> device;
  DeviceWorker worker;
  std::shared_ptr<GpuCommunicator> communicator;
};

/// Calls `work(first member)` and `work(second member)`, each in a thread.
void with_two_members(const std::function<void(NcclMember&, int member)>& work) {
  const std::string id = nccl_connector()->new_id();
  const auto member = [&](int number) {
    return std::async(std::launch::async, [&, number] {
      NcclMember own(number, id, 2, number);
      work(own, number);
    });
  };
  auto first = member(0), second = member(1);
  first.get();
  second.get();
}

TEST_F(GpuCommunicators, OneMemberGetsItsOwnSum) {
  NcclMember alone(0, nccl_connector()->new_id(), 1, 0);
  const at::Tensor numbers = alone.numbers({1, 2, 3});
  alone.worker.run([&] { alone.communicator->all_reduce(numbers); });
  EXPECT_TRUE(at::equal(alone.on_host(numbers), at::tensor({1.0F, 2.0F, 3.0F})));
  alone.communicator->abort();
  EXPECT_THROW(alone.worker.run([&] { alone.communicator->all_reduce(numbers); }), c10::Error);
}

TEST_F(GpuCommunicators, WholeGpusHaveAnIdentityAndPartsNone) {
  const auto identity = [](const std::string& name) { return nccl_connector()->identity_of(*make_device(parse_device(name))); };
  EXPECT_FALSE(identity("cuda:0").empty());
  EXPECT_EQ(identity("cuda:0"), identity("cuda:0"));
  EXPECT_EQ(identity("cuda:0/1of2"), "");
  EXPECT_EQ(identity("cpu:" + std::to_string(available_cores()[0])), "");
  if (gpu_driver().gpus > 1) {
    EXPECT_NE(identity("cuda:0"), identity("cuda:1"));
  }
}

TEST_F(GpuCommunicators, MessagesArriveInOrderAfterTheWorkThatMadeThem) {
  require(2);
  if (IsSkipped()) return;
  with_two_members([](NcclMember& own, int member) {
    for (int i = 0; i < 20; ++i) {
      const std::int64_t count = 1 << i;
      if (member == 0) {
        own.worker.run([&] {
          at::Tensor made = at::full({count}, i, at::TensorOptions(at::kFloat).device(at::kCUDA, 0));
          made = made * 2;
          own.communicator->send(1, {made, at::empty({0}, made.options()), made.to(at::kBFloat16)});
        });
        continue;
      }
      const auto like = [&](std::int64_t size, at::ScalarType type) {
        return at::empty({size}, at::TensorOptions(type).device(at::kMeta));
      };
      const Copied received = own.communicator->receive(0, {like(count, at::kFloat), like(0, at::kFloat), like(count, at::kBFloat16)});
      own.worker.run([&] {
        own.device->after(received.there);
        EXPECT_TRUE(at::all(received.tensors[0] == 2 * i).item<bool>()) << i;
        EXPECT_TRUE(at::all(received.tensors[2] == 2 * i).item<bool>()) << i;
      });
    }
  });
}

TEST_F(GpuCommunicators, SumsAreOfBothMembers) {
  require(2);
  if (IsSkipped()) return;
  with_two_members([](NcclMember& own, int member) {
    const at::Tensor numbers = own.numbers({1, 2.0F + static_cast<float>(member)});
    own.worker.run([&] { own.communicator->all_reduce(numbers); });
    EXPECT_TRUE(at::equal(own.on_host(numbers), at::tensor({2.0F, 5.0F})));
  });
}

TEST_F(GpuCommunicators, AnAbortEndsWhatWaits) {
  require(2);
  if (IsSkipped()) return;
  with_two_members([](NcclMember& own, int member) {
    const at::Tensor byte = at::empty({1}, at::TensorOptions(at::kByte).device(at::kMeta));
    if (member == 0)
      own.communicator->send(1, {own.device->empty_like(byte)});
    else
      wait_for(own.communicator->receive(0, {byte}).there);
    if (member == 0) return;
    const Copied never = own.communicator->receive(0, {byte});
    EXPECT_FALSE(reached(never.there));
    own.communicator->abort();
    wait_for(never.there);
  });
}

}  // namespace
}  // namespace mptune::testing
