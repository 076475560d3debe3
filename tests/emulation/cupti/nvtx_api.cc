/// CUPTI as the library that NVTX injects: each module that uses NVTX gives its table of functions, and gets ours. Names of categories,
/// threads, streams and devices, and payloads with a schema, are left to NVTX, which does nothing then.

#include <cupti.h>
#include <nvtx3/nvToolsExt.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "tests/emulation/cupti/nvtx_markers.h"
#include "tests/emulation/cupti/usable.h"

namespace emulation::cupti {

namespace {

const NvtxDomain* domain_of(nvtxDomainHandle_t handle) {
  return reinterpret_cast<const NvtxDomain*>(handle);
}

NvtxText text_of(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* attributes) {
  if (attributes == nullptr) return {domain_of(domain)};
  return {domain_of(domain), message_of(*attributes), attributes};
}

template <typename Letter>
void mark_text(const Letter* text) {
  mark({nullptr, interned(text)});
}
void mark_event(const nvtxEventAttributes_t* event) {
  mark(text_of(nullptr, event));
}
void mark_in(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
  mark(text_of(domain, event));
}

template <typename Letter>
nvtxRangeId_t start_text(const Letter* text) {
  return start_range({nullptr, interned(text)});
}
nvtxRangeId_t start_event(const nvtxEventAttributes_t* event) {
  return start_range(text_of(nullptr, event));
}
nvtxRangeId_t start_in(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
  return start_range(text_of(domain, event));
}

void end_default(nvtxRangeId_t range) {
  end_range(nullptr, range);
}
void end_in(nvtxDomainHandle_t domain, nvtxRangeId_t range) {
  end_range(domain_of(domain), range);
}

template <typename Letter>
int push_text(const Letter* text) {
  return push_range({nullptr, interned(text)});
}
int push_event(const nvtxEventAttributes_t* event) {
  return push_range(text_of(nullptr, event));
}
int push_in(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
  return push_range(text_of(domain, event));
}

int pop_default() {
  return pop_range(nullptr);
}
int pop_in(nvtxDomainHandle_t domain) {
  return pop_range(domain_of(domain));
}

// Domains and strings are not deleted: records refer to their texts, and programs to them.
template <typename Letter>
nvtxDomainHandle_t create_domain(const Letter* name) {
  return reinterpret_cast<nvtxDomainHandle_t>(new NvtxDomain{interned(name)});
}
void destroy_domain(nvtxDomainHandle_t) {}

template <typename Letter>
nvtxStringHandle_t register_string(nvtxDomainHandle_t, const Letter* text) {
  return reinterpret_cast<nvtxStringHandle_t>(new NvtxString{interned(text)});
}

/// A module's table: by number of the function, where the module keeps its pointer to it.
class FunctionTable {
 public:
  FunctionTable(const NvtxExportTableCallbacks& callbacks, NvtxCallbackModule module) {
    if (callbacks.GetModuleFunctionTable(module, &table_, &size_) == 0) size_ = 0;
  }

  template <typename Function>
  void set(std::size_t number, Function* function) {
    if (number < size_ && table_[number] != nullptr) *table_[number] = reinterpret_cast<NvtxFunctionPointer>(function);
  }

 private:
  NvtxFunctionTable table_ = nullptr;
  unsigned size_ = 0;
};

void set_default_domain(FunctionTable core) {
  core.set(NVTX_CBID_CORE_MarkEx, mark_event);
  core.set(NVTX_CBID_CORE_MarkA, mark_text<char>);
  core.set(NVTX_CBID_CORE_MarkW, mark_text<wchar_t>);
  core.set(NVTX_CBID_CORE_RangeStartEx, start_event);
  core.set(NVTX_CBID_CORE_RangeStartA, start_text<char>);
  core.set(NVTX_CBID_CORE_RangeStartW, start_text<wchar_t>);
  core.set(NVTX_CBID_CORE_RangeEnd, end_default);
  core.set(NVTX_CBID_CORE_RangePushEx, push_event);
  core.set(NVTX_CBID_CORE_RangePushA, push_text<char>);
  core.set(NVTX_CBID_CORE_RangePushW, push_text<wchar_t>);
  core.set(NVTX_CBID_CORE_RangePop, pop_default);
}

void set_domains(FunctionTable core2) {
  core2.set(NVTX_CBID_CORE2_DomainMarkEx, mark_in);
  core2.set(NVTX_CBID_CORE2_DomainRangeStartEx, start_in);
  core2.set(NVTX_CBID_CORE2_DomainRangeEnd, end_in);
  core2.set(NVTX_CBID_CORE2_DomainRangePushEx, push_in);
  core2.set(NVTX_CBID_CORE2_DomainRangePop, pop_in);
  core2.set(NVTX_CBID_CORE2_DomainRegisterStringA, register_string<char>);
  core2.set(NVTX_CBID_CORE2_DomainRegisterStringW, register_string<wchar_t>);
  core2.set(NVTX_CBID_CORE2_DomainCreateA, create_domain<char>);
  core2.set(NVTX_CBID_CORE2_DomainCreateW, create_domain<wchar_t>);
  core2.set(NVTX_CBID_CORE2_DomainDestroy, destroy_domain);
}

CUptiResult initialize_nvtx(NvtxGetExportTableFunc_t get_export_table) {
  if (!is_usable()) return CUPTI_ERROR_UNKNOWN;
  if (get_export_table == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(get_export_table(NVTX_ETID_CALLBACKS));
  if (callbacks == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  set_default_domain({*callbacks, NVTX_CB_MODULE_CORE});
  set_domains({*callbacks, NVTX_CB_MODULE_CORE2});
  return CUPTI_SUCCESS;
}

}  // namespace

}  // namespace emulation::cupti

// NOLINTBEGIN(readability-identifier-naming): the names are CUPTI's
extern "C" {

CUptiResult cuptiNvtxInitialize(NvtxGetExportTableFunc_t get_export_table) {
  return emulation::cupti::initialize_nvtx(get_export_table);
}

CUptiResult cuptiNvtxInitialize2(NvtxGetExportTableFunc_t get_export_table) {
  return emulation::cupti::initialize_nvtx(get_export_table);
}

CUptiResult cuptiNvtxExtensionInitialize(void*) {
  return CUPTI_SUCCESS;
}

// CUPTI says yes to NVTX in any case.
int InitializeInjectionNvtx(NvtxGetExportTableFunc_t get_export_table) {
  (void)cuptiNvtxInitialize(get_export_table);
  return 1;
}

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_export_table) {
  (void)cuptiNvtxInitialize2(get_export_table);
  return 1;
}

int InitializeInjectionNvtxExtension(void*) {
  return 1;
}
}
// NOLINTEND(readability-identifier-naming)
