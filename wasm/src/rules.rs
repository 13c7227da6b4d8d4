//! Decides by the rules file of a site.

use std::cell::RefCell;

use parallax::hosted::LocalRules;

use super::{reply, text};

thread_local! {
    static RULES: RefCell<Option<LocalRules>> = const { RefCell::new(None) };
}

/// Opens a rules file, in place of the one before. The input is its bytes, and the keys of the site as `parallax visitor-keys` prints
/// them, or an empty text. The output is an object with the members `site` and `version`.
#[unsafe(no_mangle)]
pub extern "C" fn open_rules() -> *const u8 {
    reply(|strings| {
        let [rules, keys] = strings else { return Err("the input is not a rules file and keys".to_owned()) };
        let rules = LocalRules::open(rules, text(keys)?)?;
        let description = rules.description().to_vec();
        RULES.set(Some(rules));
        Ok(description)
    })
}

/// Decides for a visitor. The input is the token of the visitor, empty for a new one, and a complete request to `/v1/variants`. The
/// output is the body of the response. A failure is the reason why Edge must decide: a code, a colon, and a sentence.
#[unsafe(no_mangle)]
pub extern "C" fn decide() -> *const u8 {
    reply(|strings| {
        let [token, request] = strings else {
            return Err("ask_edge: the input is not a token and a request".to_owned());
        };
        RULES.with_borrow_mut(|rules| {
            let rules = rules.as_mut().ok_or("ask_edge: no rules file is open")?;
            let mut body = Vec::new();
            rules.decide(text(token)?, request, &mut body)?;
            Ok(body)
        })
    })
}
