#include "profiler/device/cuda/cuda_partition.h"

#include <c10/cuda/CUDAException.h>
#include <cuda.h>

#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/device/list/gpu_plans.h"

namespace mptune::profiler {

namespace {

constexpr const char* kUseWhole = "use whole GPUs (cuda:N), or a driver of CUDA 13 on a GPU of compute capability 7.5 or newer";

/// Returns a function of the driver, in the version of the headers. The driver is not linked: a linked program would not start without it.
template <typename Function>
Function* driver_function(Function*, const char* name, const std::string& device) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult status{};
  const cudaError_t error = cudaGetDriverEntryPointByVersion(name, &found, CUDA_VERSION, cudaEnableDefault, &status);
  if (error != cudaSuccess || status != cudaDriverEntryPointSuccess || found == nullptr) {
    (void)cudaGetLastError();
    throw Error("the driver has no " + std::string(name), device, kUseWhole, ExitCode::environment);
  }
  return reinterpret_cast<Function*>(found);
}
#define MPTUNE_DRIVER(name) driver_function(static_cast<decltype(&name)>(nullptr), #name, device)

/// The driver's functions for green contexts.
struct Driver {
  explicit Driver(const std::string& device)
      : name(device),
        error_name(MPTUNE_DRIVER(cuGetErrorName)),
        get_device(MPTUNE_DRIVER(cuDeviceGet)),
        get_resource(MPTUNE_DRIVER(cuDeviceGetDevResource)),
        split(MPTUNE_DRIVER(cuDevSmResourceSplitByCount)),
        describe(MPTUNE_DRIVER(cuDevResourceGenerateDesc)),
        create(MPTUNE_DRIVER(cuGreenCtxCreate)),
        read_back(MPTUNE_DRIVER(cuGreenCtxGetDevResource)),
        create_stream(MPTUNE_DRIVER(cuGreenCtxStreamCreate)) {}

  void check(CUresult result, const char* what) const {
    if (result == CUDA_SUCCESS) return;
    const char* text = nullptr;
    if (error_name(result, &text) != CUDA_SUCCESS || text == nullptr) text = "unknown error";
    throw Error("the GPU can't be divided: " + std::string(what) + " gave " + text, name, kUseWhole, ExitCode::environment);
  }

  std::string name;
  decltype(&cuGetErrorName) error_name;
  decltype(&cuDeviceGet) get_device;
  decltype(&cuDeviceGetDevResource) get_resource;
  decltype(&cuDevSmResourceSplitByCount) split;
  decltype(&cuDevResourceGenerateDesc) describe;
  decltype(&cuGreenCtxCreate) create;
  decltype(&cuGreenCtxGetDevResource) read_back;
  decltype(&cuGreenCtxStreamCreate) create_stream;
};
#undef MPTUNE_DRIVER

std::vector<CUdevResource> divide(const Driver& driver, CUdevice gpu, int parts) {
  CUdevResource all{};
  driver.check(driver.get_resource(gpu, &all, CU_DEV_RESOURCE_TYPE_SM), "cuDeviceGetDevResource");
  const SmResource sms{static_cast<int>(all.sm.smCount), static_cast<int>(all.sm.minSmPartitionSize),
                       static_cast<int>(all.sm.smCoscheduledAlignment)};
  const int each = sms_per_part(sms, parts);
  if (each == 0)
    throw Error("the GPU has " + std::to_string(sms.count) + " multiprocessors, and a part needs at least " +
                    std::to_string(std::max(sms.least, sms.multiple)),
                driver.name, "divide it into fewer parts", ExitCode::environment);
  std::vector<CUdevResource> groups(as_index(parts));
  auto count = static_cast<unsigned>(parts);
  CUdevResource rest{};
  driver.check(driver.split(groups.data(), &count, &all, &rest, 0, static_cast<unsigned>(each)), "cuDevSmResourceSplitByCount");
  if (count != static_cast<unsigned>(parts))
    throw Error("the driver divides the GPU into " + std::to_string(count) + " parts only", driver.name, "divide it into fewer parts",
                ExitCode::environment);
  return groups;
}

struct GreenContext {
  CUgreenCtx context = nullptr;
  int sms = 0;
};

GreenContext make_context(const Driver& driver, CUdevice gpu, CUdevResource& resource) {
  CUdevResourceDesc description = nullptr;
  driver.check(driver.describe(&description, &resource, 1), "cuDevResourceGenerateDesc");
  GreenContext made;
  driver.check(driver.create(&made.context, description, gpu, CU_GREEN_CTX_DEFAULT_STREAM), "cuGreenCtxCreate");
  CUdevResource got{};
  driver.check(driver.read_back(made.context, &got, CU_DEV_RESOURCE_TYPE_SM), "cuGreenCtxGetDevResource");
  made.sms = static_cast<int>(got.sm.smCount);
  return made;
}

/// Only one thread at a time may use the handle of a green context.
std::mutex green_contexts;

/// Each division is made once, from all of the GPU: parts of two divisions overlap. Requires: `green_contexts` is held.
GreenContext context_of(const Driver& driver, const DeviceSpec& spec) {
  static std::map<std::pair<int, int>, std::vector<GreenContext>> divided;
  auto& contexts = divided[{spec.index, spec.parts}];
  if (contexts.empty()) {
    CUdevice gpu = 0;
    driver.check(driver.get_device(&gpu, spec.index), "cuDeviceGet");
    std::vector<GreenContext> made;
    for (CUdevResource& resource : divide(driver, gpu, spec.parts)) made.push_back(make_context(driver, gpu, resource));
    contexts = std::move(made);
  }
  return contexts[as_index(spec.part)];
}

GpuPart whole_gpu(int gpu) {
  GpuPart part;
  C10_CUDA_CHECK(cudaDeviceGetAttribute(&part.sms, cudaDevAttrMultiProcessorCount, gpu));
  for (cudaStream_t& stream : part.streams) C10_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return part;
}

}  // namespace

GpuPart make_gpu_part(const DeviceSpec& spec) {
  if (spec.parts == 1) return whole_gpu(spec.index);
  const Driver driver(spec.name);
  const std::lock_guard lock(green_contexts);
  const GreenContext green = context_of(driver, spec);
  GpuPart part;
  part.sms = green.sms;
  for (cudaStream_t& stream : part.streams)
    driver.check(driver.create_stream(&stream, green.context, CU_STREAM_NON_BLOCKING, 0), "cuGreenCtxStreamCreate");
  return part;
}

}  // namespace mptune::profiler
