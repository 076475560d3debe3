#include "tests/emulation/bridge/kernel_thread.h"

#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/record_function.h>
#include <c10/util/Exception.h>

#include "tests/emulation/bridge/silent_warnings.h"

// at::set_num_threads would count for every thread that the program starts later.
extern "C" {
__attribute__((weak)) void omp_set_num_threads(int threads);
__attribute__((weak)) int MKL_Set_Num_Threads_Local(int threads);
}

namespace emulation {

namespace {

bool prepare_thread() {
  (void)at::get_num_threads();  // sets the thread's number for the first time
  if (omp_set_num_threads != nullptr) omp_set_num_threads(1);
  if (MKL_Set_Num_Threads_Local != nullptr) (void)MKL_Set_Num_Threads_Local(1);
  c10::WarningUtils::set_warning_handler(&silent_warnings());
  return true;
}

}  // namespace

void run_as_kernel(const std::function<void()>& compute) {
  [[maybe_unused]] thread_local const bool prepared = prepare_thread();
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const at::DisableRecordFunctionGuard unseen;
  compute();
}

}  // namespace emulation
