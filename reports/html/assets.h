#pragma once

namespace mptune::reports {

/// The texts of page.css, page.js and docs/glossary.md.
extern const char* const kPageCss;
extern const char* const kPageScript;
extern const char* const kGlossary;

}  // namespace mptune::reports
