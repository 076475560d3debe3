#include <ATen/ATen.h>

#include <torch/version.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "profiler/base/error.h"
#include "profiler/device/device_worker.h"
#include "profiler/device/gpu_library.h"
#include "profiler/device/list/device_list.h"
#include "profiler/device/list/gpu_driver.h"
#include "profiler/device/precise_sleep.h"
#include "profiler/measure/link_timing.h"
#include "profiler/trace/collect/gpu_collector.h"
#include "profiler/trace/statistics/samples.h"
#include "tuner/worker/program/requests.h"

namespace mptune::tuner {

namespace {

template <typename... Values>
std::string text(const char* format, Values... values) {
  char buffer[256];
  std::snprintf(buffer, sizeof buffer, format, values...);
  return buffer;
}

/// Reports whether the recorder of GPUs (CUPTI) can be used.
Finding recorder() {
  try {
    profiler::require_gpu_collector();
    return {"CUPTI", FindingStatus::ok, "13", ""};
  } catch (const Error& error) {
    return {"CUPTI", FindingStatus::warning, error.problem(), std::string("needed for GPUs only; ") + error.remedy()};
  }
}

/// Returns the driver's own name and version; "" where the system does not show them, as in some containers.
std::string driver_version() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string line;
  return std::getline(file, line) ? ", " + line : "";
}

Finding gpus() {
  const profiler::GpuDriver& driver = profiler::gpu_driver();
  if (driver.gpus == 0)
    return {"CUDA driver", FindingStatus::warning, driver.problem, "CPU devices need none; install the NVIDIA driver to use GPUs"};
  const std::string count = std::to_string(driver.gpus) + (driver.gpus == 1 ? " GPU" : " GPUs");
  return {"CUDA driver", FindingStatus::ok, count + driver_version(), ""};
}

/// Reports a device. One that can't be used is a finding; the others are still examined.
Finding device_finding(const DeviceSpec& spec) {
  try {
    const auto device = make_device(spec);
    const profiler::DeviceWorker worker(device);
    return {"device " + spec.name, FindingStatus::ok, device->description().description, ""};
  } catch (const Error& error) {
    return {"device " + spec.name, FindingStatus::error, error.problem(), error.remedy()};
  }
}

/// Reports whether neighbours on different GPUs copy without the host.
void add_peers(const std::vector<DeviceSpec>& devices, Findings& findings) {
  for (std::size_t i = 0; i + 1 < devices.size(); ++i) {
    const DeviceSpec &a = devices[i], &b = devices[i + 1];
    if (a.kind != DeviceSpec::Kind::cuda || b.kind != DeviceSpec::Kind::cuda || a.index == b.index) continue;
    const bool reach = profiler::gpu_library(a.name).reaches(a.index, b.index);
    findings.findings.push_back({"peers " + a.name + " and " + b.name, reach ? FindingStatus::ok : FindingStatus::warning,
                                 reach ? "reach each other's memory" : "copies go through host memory",
                                 reach ? "" : "use GPUs that are joined by NVLink or one PCIe switch (nvidia-smi topo -m)"});
  }
}

Finding link_speed(const DeviceSpec& a, const DeviceSpec& b, const LinkThrottle& throttle) {
  const LinkCost cost = profiler::fit_link(profiler::sweep_link(make_device(a), make_device(b), throttle, 9));
  return {"link " + a.name + " to " + b.name, FindingStatus::ok,
          text("%.1f GB/s, %.0f us", cost.bytes_per_second / 1e9, cost.latency_s * 1e6), ""};
}

double product_seconds(const at::Tensor& matrix) {
  const auto start = profiler::SteadyClock::now();
  (void)at::mm(matrix, matrix);
  return std::chrono::duration<double>(profiler::SteadyClock::now() - start).count();
}

/// Reports the median time of a matrix product on the first device, alone and while the others compute the same.
Finding co_running(const std::vector<DeviceSpec>& devices) {
  std::vector<std::unique_ptr<profiler::DeviceWorker>> workers;
  for (const DeviceSpec& device : devices) workers.push_back(std::make_unique<profiler::DeviceWorker>(make_device(device)));
  std::vector<double> alone, busy;
  std::vector<at::Tensor> matrices(workers.size());
  for (std::size_t i = 0; i < workers.size(); ++i) workers[i]->run([&, i] { matrices[i] = at::ones({768, 768}); });
  for (int round = 0; round < 15; ++round) {
    workers[0]->run([&] { alone.push_back(product_seconds(matrices[0])); });
    for (std::size_t i = 0; i < workers.size(); ++i)
      workers[i]->post([&, i] {
        const double seconds = product_seconds(matrices[i]);
        if (i == 0) busy.push_back(seconds);
      });
    for (auto& worker : workers) (void)worker->wait();
  }
  const double factor = median(busy) / median(alone);
  const bool slow = factor > 1.2;
  return {"co-running slow-down", slow ? FindingStatus::warning : FindingStatus::ok, text("%.2fx", factor),
          slow ? "the devices share a core or its memory: use fewer of them, or cores of different chips" : ""};
}

Finding clock() {
  std::vector<double> late;
  for (int i = 0; i < 50; ++i) {
    const auto deadline = profiler::SteadyClock::now() + std::chrono::microseconds(300);
    profiler::sleep_until(deadline);
    late.push_back(std::chrono::duration<double>(profiler::SteadyClock::now() - deadline).count());
  }
  return {"clock", FindingStatus::ok, text("monotonic, timers %.1f us late", median(late) * 1e6), ""};
}

}  // namespace

void diagnose(const DoctorRequest& request, const Replies& reply) {
  Findings findings;
  findings.findings.push_back({"LibTorch", FindingStatus::ok, TORCH_VERSION, ""});
  findings.findings.push_back(gpus());
  findings.findings.push_back(recorder());
  const auto devices = parse_device_names(request.setup.devices);
  bool usable = true;
  for (const DeviceSpec& device : devices) {
    findings.findings.push_back(device_finding(device));
    usable = usable && findings.findings.back().status == FindingStatus::ok;
  }
  if (usable) add_peers(devices, findings);
  if (usable && devices.size() > 1) {
    findings.findings.push_back(link_speed(devices[0], devices[1], request.setup.link));
    std::vector<DeviceSpec> cpus;
    std::copy_if(devices.begin(), devices.end(), std::back_inserter(cpus),
                 [](const DeviceSpec& device) { return device.kind == DeviceSpec::Kind::cpu; });
    if (cpus.size() > 1) findings.findings.push_back(co_running(cpus));
  }
  findings.findings.push_back(clock());
  reply(std::move(findings));
}

}  // namespace mptune::tuner
