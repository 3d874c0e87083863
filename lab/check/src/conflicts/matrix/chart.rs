//! The matrix as a picture: a square for each pair at each distance, the darker the more of its states share
//! a line.

use super::{Cell, Distance, Operation};
use std::fmt::Write as _;

/// Edge of a square.
const EDGE: usize = 14;
/// Room for the names of rows, and above the names of columns.
const NAMES: usize = 78;
/// Panels beside each other.
const PANELS: usize = 3;
/// Gap between panels.
const GAP: usize = 26;

/// The picture, as SVG.
#[must_use]
pub fn svg(cells: &[Cell]) -> String {
    let side = Operation::ALL.len() * EDGE;
    let (across, down) = (NAMES + side + GAP, NAMES + side + GAP);
    let (width, height) = (PANELS * across, Distance::ALL.len().div_ceil(PANELS) * down + GAP);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"10\">\n"
    );
    for (number, &distance) in Distance::ALL.iter().enumerate() {
        let (left, top) = (number % PANELS * across, number / PANELS * down);
        panel(&mut svg, cells, distance, (left + NAMES, top + NAMES));
    }
    let legend = "white: no line is shared in any state; black: in every state; crossed: they never commute";
    let _ = writeln!(svg, "<text x=\"10\" y=\"{}\">{legend}</text>", height - 8);
    svg + "</svg>\n"
}

fn panel(svg: &mut String, cells: &[Cell], distance: Distance, (left, top): (usize, usize)) {
    let _ =
        writeln!(svg, "<text x=\"{left}\" y=\"{}\" font-weight=\"bold\">{distance}</text>", top - NAMES + 16);
    for (number, operation) in Operation::ALL.iter().enumerate() {
        let (row, column) = (top + number * EDGE + 11, left + number * EDGE + 10);
        let _ = writeln!(svg, "<text x=\"{}\" y=\"{row}\" text-anchor=\"end\">{operation}</text>", left - 4);
        let above = top - 4;
        let _ = writeln!(
            svg,
            "<text x=\"{column}\" y=\"{above}\" transform=\"rotate(-90 {column} {above})\">{operation}</text>"
        );
    }
    svg.push_str("<g stroke=\"silver\">\n");
    let at = |operation| Operation::ALL.iter().position(|&other| other == operation).unwrap_or(0);
    for cell in cells.iter().filter(|cell| cell.distance == distance) {
        let [first, second] = cell.pair.map(at);
        square(svg, cell, (left + first * EDGE, top + second * EDGE));
        if first != second {
            square(svg, cell, (left + second * EDGE, top + first * EDGE));
        }
    }
    svg.push_str("</g>\n");
}

fn square(svg: &mut String, cell: &Cell, (x, y): (usize, usize)) {
    // One hexadecimal digit for each of three colours.
    let light = (15 * cell.free).checked_div(cell.states).unwrap_or(15);
    let _ = writeln!(
        svg,
        "<rect x=\"{x}\" y=\"{y}\" width=\"{EDGE}\" height=\"{EDGE}\" fill=\"#{light:x}{light:x}{light:x}\"/>"
    );
    if cell.states == 0 {
        let (right, bottom) = (x + EDGE, y + EDGE);
        let _ = writeln!(svg, "<path d=\"M{x} {y}L{right} {bottom}M{x} {bottom}L{right} {y}\"/>");
    }
}
