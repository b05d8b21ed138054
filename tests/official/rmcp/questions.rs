//! What a tool or a prompt asks of its client by `InputRequiredResult`, one round after the other.

use rmcp::ErrorData;
use rmcp::model::{
    ClientCapabilities, InputRequest, InputRequests, InputRequiredResult, InputResponses, RequestStateCodec,
};

use crate::fixture::{Questions, Texts, fill, text};

impl Questions {
    /// What the client has to be asked now; `None` when it has answered everything. Its answers are added to the texts.
    pub(crate) fn next(
        &self,
        codec: &RequestStateCodec,
        state: Option<&str>,
        answers: Option<&InputResponses>,
        can: &ClientCapabilities,
        given: &mut Texts,
    ) -> Result<Option<InputRequiredResult>, ErrorData> {
        let answered_round = match state {
            Some(state) if self.sealed => Some(
                codec
                    .open_json::<usize>(state)
                    .map_err(|_| ErrorData::invalid_params("requestState is not one of this server", None))?,
            ),
            _ => (!self.sealed).then_some(0),
        };
        let mut round = 0;
        if let Some(answered_round) = answered_round {
            let Some(asked) = self.asked(answered_round, can)? else { return Ok(None) };
            let all = self.answered(&asked, answers, given);
            round = answered_round + usize::from(all);
        }
        let Some(asked) = self.asked(round, can)? else { return Ok(None) };
        let state = self.sealed.then(|| codec.seal_json(&round)).transpose();
        let state = state.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        Ok(Some(InputRequiredResult::new(Some(asked), state)))
    }

    /// The questions of a round; `None` where there is none such, or nothing in it.
    fn asked(&self, round: usize, can: &ClientCapabilities) -> Result<Option<InputRequests>, ErrorData> {
        let Some(part) = self.asks.get(round) else { return Ok(None) };
        let mut asked: InputRequests = fill(part, &Texts::new())?;
        asked.retain(|_, question| !self.if_declared || declared(question, can));
        Ok((!asked.is_empty()).then_some(asked))
    }

    /// Whether all questions were; a form counts when it was filled in.
    fn answered(&self, asked: &InputRequests, answers: Option<&InputResponses>, given: &mut Texts) -> bool {
        let mut all = true;
        for (name, question) in asked {
            let answer = answers.and_then(|answers| answers.get(name)?.as_object());
            let form = answer.and_then(|answer| answer.get("content")?.as_object());
            all &= if matches!(question, InputRequest::Elicitation(_)) { form.is_some() } else { answer.is_some() };
            for (field, value) in form.into_iter().flatten() {
                given.insert(format!("{name}.{field}"), text(value));
            }
        }
        all
    }
}

fn declared(question: &InputRequest, can: &ClientCapabilities) -> bool {
    match question {
        InputRequest::Elicitation(_) => can.elicitation.is_some(),
        InputRequest::ListRoots(_) => can.roots.is_some(),
        _ => can.sampling.is_some(),
    }
}
