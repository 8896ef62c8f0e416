#pragma once
// The frame around a notice, and what keeps a job from forging it.
//
// A notice is text for a model in this shape:
//
//   <waybill_notice delivery="…" events="2">
//   …one line that says what this is…
//   <event id="…" type="job.failed" job="…" status="failed">
//   label: …
//   <output untrusted="true">
//   …
//   </output>
//   </event>
//   </waybill_notice>
//
// All markup begins with `<`. Whatever a job controls (label, command, output, process names, the
// text of a stage, a reason) passes through `escape_untrusted` and holds no `<` afterwards, so that
// no spelling, case, blank, invisible or look-alike character can close a block or open one. Single
// fields are one line besides, so that they cannot forge a field. `>` alone forms no markup and
// stays, as does the `&` of `2>&1` and `a && b`: shell text stays readable.

#include <cstddef>
#include <string>
#include <string_view>

namespace waybill::text {

// `<` is `&lt;`; characters that look like it are `&#x…;` (full-width and small forms, what
// opens like an angle bracket); an `&` that could begin such an entity is `&amp;`, so that this is
// unambiguous. Expects text that `render` or `preview` made.
std::string escape_untrusted(std::string_view text);

// One escaped line of at most `characters` characters before escaping.
std::string untrusted_line(std::string_view text, std::size_t characters);

// ` name="value"`: quotes, markup and controls in the value are escaped; at most 256 characters.
std::string attribute(std::string_view name, std::string_view value);

}  // namespace waybill::text
